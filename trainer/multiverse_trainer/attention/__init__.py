"""Multiverse Attention: token trees as spans, masks and block masks, for any Hugging Face model."""
