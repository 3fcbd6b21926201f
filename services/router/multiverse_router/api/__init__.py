"""HTTP: one module per API, and what they share."""
