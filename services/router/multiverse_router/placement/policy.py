"""The contracts of placement: where a request starts, and what becomes of the paths of a fork.

A policy is deterministic in its seed and its calls. It keeps no clock: the time, in seconds of
any monotonic clock, is passed in. It never blocks, and it changes nothing but its own state:
whoever asks does the placing, and tells the fleet, before the next question is asked.

Every policy is filter -> score -> pick (see `shortlist`): workers that accept nothing are left
out; a score, lower is better, is given to the others; the lowest is picked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from multiverse_router.placement.view import Fleet, Progress

Coverage: TypeAlias = Mapping[str, int]
"""By worker: how many tokens of a context it has in its cache. Those with none are left out."""


@dataclass(frozen=True, slots=True)
class Root:
    """A request that is to be placed."""

    tokens: int  # of its context
    coverage: Coverage = field(default_factory=dict)
    progress: Progress | None = None  # of the request, where it has a target


@dataclass(frozen=True, slots=True)
class Fork:
    """Sibling paths that are to be placed: all of a fork, or those that still wait."""

    home: str  # the worker that has the prefix, and mostly joins (`joins`)
    tokens: int  # of the context that all have in common
    paths: int  # how many; at least 1
    progress: Progress  # of the request; its `running` counts siblings that run already
    path_tokens: float  # that a path is expected to have; a mean of those before
    coverage: Coverage = field(default_factory=dict)  # `home` may be left out: it has all


Placement: TypeAlias = tuple[str | None, ...]
"""For each path, in their order: its worker, or None: it waits at home."""


class RootPolicy(ABC):
    """Places requests."""

    @abstractmethod
    def root(self, fleet: Fleet, root: Root, now_s: float) -> str:
        """The worker.

        WorkerUnavailable when none accepts anything, CapacityExceeded when none may take more.
        """


class SiblingPolicy(ABC):
    """Places the paths of a fork, as one decision."""

    @abstractmethod
    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        """`fork.paths` entries. Those that run stand before those that wait.

        When nothing of the request runs, at least one path does not wait, so every request goes
        on. The paths that wait are asked for again, as a smaller fork, when a branch has ended
        on the home worker or a while has passed. A home that accepts nothing more still takes
        the paths of its requests; one that the fleet does not know takes none.
        WorkerUnavailable when there is no home, and no other worker.
        """


class Policy(RootPolicy, SiblingPolicy):
    """Both, from two that know nothing of each other."""

    def __init__(self, roots: RootPolicy, siblings: SiblingPolicy) -> None:
        self.root_policy = roots
        self.sibling_policy = siblings

    def root(self, fleet: Fleet, root: Root, now_s: float) -> str:
        return self.root_policy.root(fleet, root, now_s)

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        return self.sibling_policy.fork(fleet, fork, now_s)
