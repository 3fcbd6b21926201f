"""gRPC: the native API over another transport. The checks are those of `api`."""
