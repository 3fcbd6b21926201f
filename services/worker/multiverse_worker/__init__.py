"""One model replica: engines behind one gRPC service. Knows no text and no HTTP."""
