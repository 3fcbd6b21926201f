"""Checks of a sample; each says what is wrong, and at which stage that came in."""
