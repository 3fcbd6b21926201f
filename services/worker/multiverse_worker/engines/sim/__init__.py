"""The simulator: the engine contract with scripted tokens, a timing model and no model."""
