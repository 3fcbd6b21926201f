"""The GPU engine: a plugin inside unmodified SGLang, and the adapter that talks to it."""
