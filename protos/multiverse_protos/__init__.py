"""Generated stubs; remake them with `make proto`."""
