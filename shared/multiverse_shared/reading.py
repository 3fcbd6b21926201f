"""What reading a finished answer gives, and what only shows when a whole answer is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from multiverse_shared.tree import Context


class Incomplete(StrEnum):
    """Faults of a whole answer; those of single tags are `machine.Irregular`."""

    FEWER_PATHS = "fewer_paths_than_outlines"
    NO_CONCLUSION = "paths_without_conclusion"
    PATH_WITHOUT_END = "path_without_end"
    OPEN_BLOCK = "block_open_at_the_end"
    RUNAWAY = "more_outlines_than_allowed"
    ODD_LABELS = "odd_labels"  # of outlines: missing, ill-formed or not unique
    PROMISE_WITHOUT_PATH = "promise_without_path"
    PATH_WITHOUT_SYNC = "path_without_sync"


@dataclass(frozen=True, slots=True)
class Reading:
    """The tree of an answer, and how often what broke the grammar of its dialect."""

    context: Context
    irregular: Counter[str]  # values of `Irregular` and of `Incomplete`
