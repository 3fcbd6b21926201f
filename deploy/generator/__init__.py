"""Writes what follows from the settings classes: defaults, schema and documentation."""
