"""Training of models that fork and join. Knows torch; must not know serving."""
