"""What every part of Multiverse agrees on: context tree, dialects, interpreter, errors.

Knows no HTTP, no gRPC servers and no torch.
"""
