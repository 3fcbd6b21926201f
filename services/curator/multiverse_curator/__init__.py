"""Turns ordinary chains of thought into parallel training data (arXiv 2506.09991, section 5.1).

Knows texts, teachers and checks. Must not know router or worker internals, nor how to train.
"""
