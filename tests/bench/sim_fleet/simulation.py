"""The event loop: arrivals, ends of branches and of prefill, joins, and questions to the policy."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import overload

from multiverse_router.placement.auto import RETRY_S
from multiverse_router.placement.joins import joined_at
from multiverse_router.placement.policy import Fork, Policy, Root
from multiverse_router.placement.view import Progress, WorkerView
from multiverse_shared.errors import CapacityExceeded
from multiverse_worker.engines.sim.timing import StepTimes
from tests.bench.sim_fleet.machine import Machine
from tests.bench.sim_fleet.mixes import Arrival, Paths
from tests.bench.sim_fleet.requests import Branch, Join, Request
from tests.bench.sim_fleet.waiting import Waiting, WaitingForks

FIRST_PATH_TOKENS = 128.0  # that a path is expected to have before any has ended
_WEIGHT = 0.05  # of the last path in the mean


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a run assumes."""

    workers: int
    times: StepTimes
    target_ms: float
    kv_cells: int
    patience_s: float  # a request that has not begun by then is rejected


class Views(Sequence[WorkerView]):
    """Made one by one, when they are looked at."""

    def __init__(self, machines: list[Machine]) -> None:
        self._machines = machines

    def __len__(self) -> int:
        return len(self._machines)

    @overload
    def __getitem__(self, index: int) -> WorkerView: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[WorkerView]: ...
    def __getitem__(self, index: int | slice) -> WorkerView | Sequence[WorkerView]:
        if isinstance(index, slice):
            return Views(self._machines[index])
        return self._machines[index].view

    def __iter__(self) -> Iterator[WorkerView]:
        return (machine.view for machine in self._machines)


class Simulation:
    """One run. It is the `Fleet` of its policy."""

    def __init__(self, conditions: Conditions, policy: Policy) -> None:
        self.now = 0.0
        self.machines = [
            Machine(f"w{n}", conditions.times, conditions.kv_cells)
            for n in range(conditions.workers)
        ]
        self.requests: list[Request] = []
        self.regulate: Callable[[Machine], None] = lambda machine: None  # before time goes on
        self.moved = self.paths = self.waited = 0
        self._conditions = conditions
        self._policy = policy
        self._views = Views(self.machines)
        self._by_id = {machine.id: machine for machine in self.machines}
        self._holders: dict[int, dict[str, int]] = {}  # by family: who has its prefix
        self._forks = WaitingForks()
        self._ticking: set[str] = set()
        self._path_tokens = FIRST_PATH_TOKENS
        self._events: list[tuple[float, int, Machine | None, int, Callable[[], None] | None]] = []
        self._sequence = itertools.count()
        self._stopped = False
        self._dirty: dict[Machine, None] = {}

    # -- the fleet, as policies see it -----------------------------------------------------------

    @property
    def workers(self) -> Sequence[WorkerView]:
        return self._views

    def worker(self, id: str) -> WorkerView | None:
        machine = self._by_id.get(id)
        return machine.view if machine else None

    def residents(self, id: str) -> Collection[Progress]:
        machine = self._by_id[id]
        steps = machine.now_steps(self.now)
        found = []
        for request in machine.residents:
            progress, decoding = request.progress, request.decoding
            here = decoding.get(machine)
            if here is None or len(decoding) > 1:
                progress.tokens = int(request.tokens(self.now))
            else:
                progress.tokens = int(request.settled + here[0] * steps - here[1])
            found.append(progress)
        return found

    # -- time ------------------------------------------------------------------------------------

    def run(self, arrivals: Iterator[Arrival]) -> None:
        """Let requests arrive, and all happen, until nothing is left to or `stop` is called."""
        self._expect(arrivals)
        while self._events and not self._stopped:
            time, _, machine, version, action = heapq.heappop(self._events)
            if machine is not None and machine.version != version:
                continue
            self.now = time
            if action is not None:
                action()
            else:
                assert machine is not None
                self._happen(machine)
            self._schedule()

    def stop(self) -> None:
        """To be called from an event: nothing happens any more."""
        self._stopped = True

    def at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time, next(self._sequence), None, 0, action))

    def touch(self, machine: Machine) -> None:
        """Bring a worker to the present, to change it."""
        if machine not in self._dirty:
            machine.advance(self.now)
            self._dirty[machine] = None

    def _schedule(self) -> None:
        for machine in self._dirty:
            self.regulate(machine)
            machine.settle()
            due = machine.next_event()
            if due is not None:
                entry = (due, next(self._sequence), machine, machine.version, None)
                heapq.heappush(self._events, entry)
        self._dirty.clear()

    def _expect(self, arrivals: Iterator[Arrival]) -> None:
        arrival = next(arrivals, None)
        if arrival is None:
            return

        def come() -> None:
            self._arrive(arrival)
            self._expect(arrivals)

        self.at(arrival.at_s, come)

    def _happen(self, machine: Machine) -> None:
        self.touch(machine)
        ended, then = machine.ended()
        if then is not None:
            then()
        for branch in ended:
            self.rest(branch)
            self._go_on(branch)
        if ended:
            self._freed(machine)

    # -- requests --------------------------------------------------------------------------------

    def _arrive(self, arrival: Arrival) -> None:
        request = Request(arrival, self._conditions.target_ms)
        self.requests.append(request)
        holders = self._holders.setdefault(arrival.family, {})
        root = Root(arrival.prefix + arrival.question, holders, request.progress)
        try:
            machine = self._by_id[self._policy.root(self, root, self.now)]
        except CapacityExceeded:
            request.rejected = True
            return
        request.home = machine
        self.touch(machine)
        machine.queue.append(request)
        machine.changed()
        self._admit(machine)

    def _admit(self, machine: Machine) -> None:
        """First come, first served; who has waited too long is not there any more."""
        while machine.queue:
            request = machine.queue[0]
            waited = self.now - request.arrival.at_s
            if waited <= self._conditions.patience_s and request.room > machine.kv_free:
                return
            machine.queue.popleft()
            if waited > self._conditions.patience_s:
                request.rejected = True
                continue
            machine.kv_free -= request.room
            self._begin(request, machine)

    def _begin(self, request: Request, machine: Machine) -> None:
        arrival = request.arrival
        if machine.has_prefix(arrival.family):
            request.cached = arrival.prefix
        context = arrival.prefix + arrival.question
        branch = Branch(request, arrival.answer.program, machine, context, None)
        self._settle_in(branch)

        def loaded() -> None:
            self._keep_prefix(machine, arrival)
            self._go_on(branch)

        machine.load(context - request.cached, loaded)

    def _keep_prefix(self, machine: Machine, arrival: Arrival) -> None:
        self._holders[arrival.family][machine.id] = arrival.prefix
        forgotten = machine.keep_prefix(arrival.family)
        if forgotten is not None:
            self._holders[forgotten].pop(machine.id, None)

    def _settle_in(self, branch: Branch) -> None:
        """A branch is on its worker now: it loads, or decodes."""
        request, machine = branch.request, branch.home
        machine.residents[request] = machine.residents.get(request, 0) + 1
        request.progress.running += 1
        machine.changed()

    def _move_out(self, branch: Branch) -> None:
        request, machine = branch.request, branch.home
        machine.residents[request] -= 1
        if not machine.residents[request]:
            del machine.residents[request]
        request.progress.running -= 1
        machine.changed()

    # -- branches --------------------------------------------------------------------------------

    def _go_on(self, branch: Branch) -> None:
        """To the next part of its program; its worker is touched, and counts it."""
        part = next(branch.todo, None)
        if part is None:
            self._end(branch)
        elif isinstance(part, int):
            branch.left = part
            branch.tokens += part
            branch.context += part
            self.wake(branch)
        else:
            self._fork(branch, part)

    def wake(self, branch: Branch) -> None:
        """Let it decode what is left."""
        machine = branch.home
        machine.decode(branch)
        decoding = branch.request.decoding
        count, starts = decoding.get(machine, (0, 0.0))
        decoding[machine] = (count + 1, starts + branch.since)

    def rest(self, branch: Branch) -> None:
        """It decodes no more: what it has decoded counts."""
        machine, request = branch.home, branch.request
        machine.stop(branch)
        count, starts = request.decoding[machine]
        if count == 1:
            del request.decoding[machine]
        else:
            request.decoding[machine] = (count - 1, starts - branch.since)
        decoded = min(branch.left, machine.steps - branch.since)
        request.settled += decoded
        branch.left -= decoded

    def _fork(self, parent: Branch, programs: Paths) -> None:
        request, machine = parent.request, parent.home
        self._move_out(parent)
        join = Join(parent, len(programs))
        join.waiting = [
            Branch(request, program, machine, parent.context, join) for program in programs
        ]
        self.paths += len(programs)
        self._place(join)
        if join.waiting:
            self.waited += len(join.waiting)
            self._wait(join)

    def _wait(self, join: Join) -> None:
        machine = join.parent.home
        join.entry = Waiting(machine.id, join.parent.request.progress, lambda: self._place(join))
        self._forks.add(join.entry)
        if machine.id not in self._ticking:
            self._ticking.add(machine.id)
            self.at(self.now + RETRY_S, lambda: self._tick(machine))

    def _tick(self, machine: Machine) -> None:
        self._ticking.discard(machine.id)
        self._freed(machine)
        if machine.id in self._forks.homes():
            self._ticking.add(machine.id)
            self.at(self.now + RETRY_S, lambda: self._tick(machine))

    def _freed(self, machine: Machine) -> None:
        self._admit(machine)
        self._forks.freed(machine.id, self.now)

    def _place(self, join: Join) -> bool:
        """Ask for the paths that wait; whether any was placed."""
        parent, progress = join.parent, join.parent.request.progress
        coverage = self._holders[parent.request.arrival.family]
        fork = Fork(
            parent.home.id,
            parent.context,
            len(join.waiting),
            progress,
            self._path_tokens,
            coverage,
        )
        placed = [id for id in self._policy.fork(self, fork, self.now) if id is not None]
        lacking: dict[str, int] = {parent.home.id: 0}
        waits = len(placed) < len(join.waiting)
        for id in placed:
            branch = join.waiting.pop(0)
            machine = branch.home = self._by_id[id]
            self.touch(machine)
            self._settle_in(branch)
            if machine is parent.home:
                join.shipped &= waits
                self._go_on(branch)
                continue
            self.moved += 1
            known = coverage.get(id, 0)
            machine.load(lacking.get(id, parent.context - known), partial(self._go_on, branch))
            lacking[id] = 0
        if join.entry is not None and not join.waiting:
            self._forks.remove(join.entry)
        return bool(placed)

    def _end(self, branch: Branch) -> None:
        self._move_out(branch)
        join, request = branch.join, branch.request
        if join is None:
            request.done_s = self.now
            branch.home.kv_free += request.room
            self._admit(branch.home)
            return
        self._path_tokens += _WEIGHT * (branch.tokens - self._path_tokens)
        join.open -= 1
        join.tokens += branch.tokens
        join.held[branch.home] = join.held.get(branch.home, 0) + branch.tokens
        if not join.open:
            self._join(join)
        elif join.waiting and not request.progress.running:
            self._place(join)

    def _join(self, join: Join) -> None:
        """Where the router would; the worker loads what it lacks."""
        parent, home = join.parent, join.parent.home
        parent.home = joined_at(home, join.held, shipped=join.shipped)
        if parent.join is None and parent.home is not home:
            self._rehouse(parent.request, parent.home)
        parent.tokens += join.tokens
        parent.context += join.tokens
        self.touch(parent.home)
        self._settle_in(parent)
        lacking = join.tokens - join.held.get(parent.home, 0)
        if lacking:
            parent.home.load(lacking, partial(self._go_on, parent))
        else:
            self._go_on(parent)

    def _rehouse(self, request: Request, machine: Machine) -> None:
        """Its KV is held by another worker from now on."""
        before, request.home = request.home, machine
        assert before is not None
        before.kv_free += request.room
        machine.kv_free -= request.room
        before.changed()
        machine.changed()
        self._admit(before)
