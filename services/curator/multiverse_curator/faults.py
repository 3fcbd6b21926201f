"""What a sample goes through, and what can be wrong with it there."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """In order. All but `structure` and `check` ask the teacher."""

    SUMMARY = "summary"
    GROUPS = "groups"
    STRUCTURE = "structure"
    REFILL = "refill"
    REWRITE = "rewrite"
    CHECK = "check"


STAGES = tuple(Stage)


class Fault(Exception):
    """An answer breaks a rule: the sample goes back to `stage`, which hears the reason.

    `name` is that of the question at fault, where the stage asks several.
    """

    def __init__(self, stage: Stage, reason: str, name: str = "") -> None:
        super().__init__(reason)
        self.stage = stage
        self.reason = reason
        self.name = name
