"""One simulated worker: steps, prefill in chunks, room for KV, prefixes in its cache.

Between two events the number of branches is constant, so a clock that counts steps runs evenly,
and a branch of m tokens ends m ticks after it began: an event costs O(log branches), whatever
the number of tokens. Prefill goes on beside decoding, CHUNK tokens a step, first come first served;
a request holds room for its prompt and half of its answer, which is what it holds in the mean.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from multiverse_router.placement.steps import StepCurve
from multiverse_router.placement.view import WorkerView
from multiverse_worker.engines.sim.timing import StepTimes

if TYPE_CHECKING:
    from tests.bench.sim_fleet.requests import Branch, Request

CHUNK = 128  # tokens of prefill in a step
CACHED_PREFIXES = 16  # of families, that a worker keeps
_WEIGHT = 0.1  # of a step in the mean for its size, as the llama.cpp engine's meter has it


@dataclass(slots=True)
class _Job:
    """Tokens to load, and what comes then."""

    tokens: float
    then: Callable[[], None]


class Machine:
    """Times in seconds. `steps` is a clock that counts steps."""

    def __init__(self, id: str, times: StepTimes, kv_cells: int) -> None:
        self.id = id
        self.kv_free = self.kv_total = kv_cells
        self.steps = 0.0
        self.version = 0  # of what happens next
        self.residents: dict[Request, int] = {}  # branches there
        self.queue: deque[Request] = deque()  # without room
        self.branches: dict[Branch, None] = {}  # that decode
        self.paused: dict[Branch, None] = {}  # that could
        self.loading = 0.0
        self._times = times
        self._at = 0.0
        self._step_s = 0.0
        self._chunk = 0  # tokens of prefill in a step
        self._ends: list[tuple[float, int, Branch, int]] = []
        self._jobs: deque[_Job] = deque()
        self._prefixes: OrderedDict[int, None] = OrderedDict()
        self._measured: dict[int, tuple[float, float]] = {}  # as `StepMeter` does
        self._curve = StepCurve()
        self._view: WorkerView | None = None
        self._sequence = 0

    # -- time ------------------------------------------------------------------------------------

    def now_steps(self, now: float) -> float:
        """The clock of steps at a time that is not before the last event."""
        return self.steps + ((now - self._at) / self._step_s if self._step_s else 0.0)

    def advance(self, now: float) -> None:
        """Let time pass; to be called before anything is changed."""
        if self._step_s and now > self._at:
            passed = (now - self._at) / self._step_s
            self.steps += passed
            if self._jobs:
                done = min(passed * self._chunk, self._jobs[0].tokens)
                self._jobs[0].tokens -= done
                self.loading -= done
            elif self.branches:
                self._measure(passed)
        self._at = now

    def settle(self) -> None:
        """Something was changed: the pace is another."""
        self._view = None
        self.version += 1
        decoding = len(self.branches)
        self._chunk = max(1, min(CHUNK, round(self._jobs[0].tokens))) if self._jobs else 0
        self._step_s = self._times.step_ms(decoding, self._chunk) / 1000

    def next_event(self) -> float | None:
        """When a branch or a job ends, if nothing is changed before."""
        ends = self._ends
        while ends and ends[0][2].version != ends[0][3]:
            heapq.heappop(ends)
        due = ends[0][0] - self.steps if ends else None
        if self._jobs:
            loaded = self._jobs[0].tokens / self._chunk
            due = loaded if due is None else min(due, loaded)
        return None if due is None else self._at + max(0.0, due) * self._step_s

    def ended(self) -> tuple[list[Branch], Callable[[], None] | None]:
        """Branches that have ended by now, and what comes after a job that has."""
        found = []
        ends = self._ends
        while ends and (ends[0][2].version != ends[0][3] or ends[0][0] <= self.steps + 1e-6):
            _, _, branch, version = heapq.heappop(ends)
            if branch.version == version:
                found.append(branch)
        then = None
        if self._jobs and self._jobs[0].tokens <= 1e-3:
            job = self._jobs.popleft()
            self.loading -= job.tokens
            then = job.then
        return found, then

    # -- work ------------------------------------------------------------------------------------

    def load(self, tokens: float, then: Callable[[], None]) -> None:
        self._jobs.append(_Job(max(1.0, tokens), then))
        self.loading += max(1.0, tokens)

    def decode(self, branch: Branch) -> None:
        """Let a branch decode its `left` tokens."""
        branch.version += 1
        branch.since = self.steps
        self.branches[branch] = None
        self._sequence += 1
        heapq.heappush(
            self._ends, (self.steps + branch.left, self._sequence, branch, branch.version)
        )

    def stop(self, branch: Branch) -> None:
        """A branch decodes no more: it has ended, or is paused."""
        branch.version += 1
        del self.branches[branch]

    # -- prefixes --------------------------------------------------------------------------------

    def has_prefix(self, family: int) -> bool:
        return family in self._prefixes

    def keep_prefix(self, family: int) -> int | None:
        """The prefix of a family was used; the family that was forgotten for it."""
        self._prefixes[family] = None
        self._prefixes.move_to_end(family)
        if len(self._prefixes) > CACHED_PREFIXES:
            return self._prefixes.popitem(last=False)[0]
        return None

    # -- what is told ----------------------------------------------------------------------------

    def changed(self) -> None:
        """Its counts were; what it tells of itself is made anew."""
        self._view = None

    @property
    def view(self) -> WorkerView:
        if self._view is None:
            self._view = WorkerView(
                id=self.id,
                requests=len(self.residents) + len(self.queue),
                running=sum(self.residents.values()) + len(self.queue),
                waiting=len(self.queue),
                loading=round(self.loading),
                kv_free=self.kv_free,
                kv_total=self.kv_total,
                steps=self._curve,
                reported_s=self._at,
            )
        return self._view

    def _measure(self, steps: float) -> None:
        decoding, ms = len(self.branches), 1000 * self._step_s
        bucket = (decoding - 1).bit_length()
        mean, mean_ms = self._measured.get(bucket, (float(decoding), ms))
        kept = (1 - _WEIGHT) ** steps
        self._measured[bucket] = (
            decoding - (decoding - mean) * kept,
            ms - (ms - mean_ms) * kept,
        )
        if abs(ms - mean_ms) * (1 - kept) > 0.01 or len(self._curve.points) < len(self._measured):
            self._curve = StepCurve.of((round(n), ms) for n, ms in self._measured.values())
