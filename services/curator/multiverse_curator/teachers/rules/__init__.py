"""A teacher without a model: finds what can be found by form."""

from multiverse_curator.teachers.rules.teacher import RulesTeacher

__all__ = ["RulesTeacher"]
