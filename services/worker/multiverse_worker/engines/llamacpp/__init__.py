"""The embedded engine: llama.cpp through its low-level interface."""
