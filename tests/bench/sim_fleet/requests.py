"""Requests and their branches on the way through the simulated fleet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from multiverse_router.placement.view import Progress
from tests.bench.sim_fleet.mixes import Arrival, Paths, Program
from tests.bench.sim_fleet.waiting import Waiting

if TYPE_CHECKING:
    from tests.bench.sim_fleet.machine import Machine


class Request:
    """One answer in the making."""

    __slots__ = (
        "arrival",
        "cached",
        "decoding",
        "done_s",
        "home",
        "progress",
        "rejected",
        "settled",
    )

    def __init__(self, arrival: Arrival, target_ms: float) -> None:
        self.arrival = arrival
        self.progress = Progress(arrival.at_s, target_ms)
        self.home: Machine | None = None
        self.cached = 0  # tokens of the prompt
        self.done_s: float | None = None
        self.rejected = False
        self.settled = 0.0  # tokens of branches that decode no more
        self.decoding: dict[Machine, tuple[int, float]] = {}  # branches; the sum of their starts

    @property
    def room(self) -> int:
        """KV cells that it holds in the mean."""
        arrival = self.arrival
        return arrival.prefix + arrival.question + arrival.answer.tokens // 2

    def tokens(self, now: float) -> float:
        """Delivered by now."""
        total = self.settled
        for machine, (count, starts) in self.decoding.items():
            total += count * machine.now_steps(now) - starts
        return total


class Branch:
    """A path, or the root, of a request."""

    __slots__ = ("context", "home", "join", "left", "request", "since", "todo", "tokens", "version")

    def __init__(
        self, request: Request, program: Program, home: Machine, context: int, join: Join | None
    ) -> None:
        self.request = request
        self.todo: Iterator[int | Paths] = iter(program)
        self.home = home  # where it runs
        self.context = context  # tokens before what it decodes next
        self.join = join  # what waits for its end
        self.tokens = 0  # of its own, with those of its paths
        self.left = 0.0  # tokens to decode
        self.since = 0.0  # clock of steps when it began to
        self.version = 0


class Join:
    """A fork whose paths have not all ended."""

    __slots__ = ("entry", "held", "open", "parent", "shipped", "tokens", "waiting")

    def __init__(self, parent: Branch, paths: int) -> None:
        self.parent = parent
        self.open = paths
        self.waiting: list[Branch] = []
        self.entry: Waiting | None = None  # where its waiting paths queue
        self.tokens = 0  # of the paths that have ended
        self.held: dict[Machine, int] = {}  # of these, by the worker that has them
        self.shipped = True  # those at home: each began while siblings waited
