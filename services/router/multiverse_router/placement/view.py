"""What a policy sees of workers and of the requests on them.

The pool of workers keeps these up to date. Own in-flight counts come first: they are exact at
once. What a worker reports of itself counts only while it is fresh.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from multiverse_router.placement.steps import StepCurve


@dataclass(slots=True)
class WorkerView:
    """One worker at one moment; replaced as a whole when something changes.

    Nobody changes one; not frozen, since decisions make many, in less than half of the time.
    """

    id: str
    accepting: bool = True  # healthy, breaker closed, not draining, of the right model
    requests: int = 0  # of this router, that are at home there
    running: int = 0  # branches there, of this router, and by a fresh report of others
    waiting: int = 0  # of `running`: branches that the worker has no room for yet
    loading: int = 0  # tokens of contexts that are still to be computed there
    tokens: int = 0  # of all contexts in flight there
    kv_free: int = 0  # cells that are free or idle
    kv_total: int = 0  # cells of the pool; 0: not known
    steps: StepCurve = field(default_factory=StepCurve)
    reported_s: float | None = None  # when it last told of itself; None: never

    def fresh(self, now_s: float, within_s: float) -> bool:
        """Whether its own report is young enough to be believed."""
        return self.reported_s is not None and now_s - self.reported_s <= within_s


@dataclass(slots=True, eq=False)
class Progress:
    """How far one request has come: kept by its coordinator, read by policies.

    One object for each request, registered with every worker that runs a branch of it.
    """

    began_s: float
    target_ms: float | None = None  # of a token, in the mean over the answer; None: no target
    priority: int = 0  # the higher goes first
    tokens: int = 0  # delivered so far, all paths
    running: int = 0  # branches that decode now, on all workers


class Fleet(Protocol):
    """The workers that serve one model."""

    @property
    def workers(self) -> Sequence[WorkerView]:
        """All of them, those that accept nothing included; in an order that is stable."""

    def worker(self, id: str) -> WorkerView | None:
        """One of them; None when it has left."""

    def residents(self, id: str) -> Collection[Progress]:
        """The requests that have a branch on a worker."""
