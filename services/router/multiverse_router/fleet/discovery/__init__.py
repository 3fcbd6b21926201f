"""Where workers are looked for: a list, a registry in Redis, endpoints in Kubernetes."""
