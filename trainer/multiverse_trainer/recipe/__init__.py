"""A training from settings to a finished model, on transformers' Trainer."""
