"""The branches of the SGLang engine over a toy scheduler: rows, leases, pressure, aborts."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.effects import Stop
from multiverse_shared.errors import NotFound, RequestTooLarge
from multiverse_shared.tree import Block, Context, Text
from multiverse_worker.contract import BranchId, Finish, FinishReason, Ids, Start
from tests.unit.worker.toy_scheduler import ToyScheduler


@dataclass
class Request:
    """plan -> paths -> conclusion, one command at a time as the ends come in."""

    scheduler: ToyScheduler
    name: str
    prompt: Ids
    numbers: itertools.count[int]
    paths: int = 3
    stage: str = "plan"
    waiting: list[BranchId] = field(default_factory=list)
    context: Context = ()
    leases: list[str] = field(default_factory=list)
    headers: dict[BranchId, Ids] = field(default_factory=dict)
    starts: dict[BranchId, Start] = field(default_factory=dict)
    said: list[list[int]] = field(default_factory=list)

    def begin(self) -> None:
        self.context = (Text(self.prompt),)
        self._start(self.context, max_tokens=4)

    def _start(self, context: Context, **fields: object) -> BranchId:
        branch = BranchId(1, next(self.numbers))
        start = Start(branch, self.name, context, **fields)  # type: ignore[arg-type]
        self.starts[branch] = start
        self.waiting.append(branch)
        self.scheduler.start(start)
        return branch

    def go_on(self) -> bool:
        """Take in the ends that have come; true when the answer is complete."""
        for branch in list(self.waiting):
            finish = self.scheduler.finishes.get(branch)
            if finish and isinstance(finish.error, NotFound):
                self.waiting.remove(branch)
                header = self.headers.pop(branch)
                again = self._start((*self.context, Text(header)), max_tokens=5, length_tail=(8,))
                self.headers[again] = header
            elif finish:
                assert finish.error is None, finish
        if not all(branch in self.scheduler.finishes for branch in self.waiting):
            return False
        ended = [(branch, self.scheduler.finishes[branch]) for branch in self.waiting]
        self.said += [self.scheduler.said[branch] for branch, _ in ended]
        self.leases += [finish.lease for _, finish in ended]
        self.waiting = []
        return self._next(ended)

    def _next(self, ended: list[tuple[BranchId, Finish]]) -> bool:
        if self.stage == "plan":
            (root, finish), self.stage = ended[0], "paths"
            self.context = (*self.context, Text(tuple(self.said[0])))
            for number in range(self.paths):
                header = (7, number)
                branch = self._start(
                    (Text(header),), base_key=finish.key, block=root, max_tokens=5, length_tail=(8,)
                )
                self.headers[branch] = header
        elif self.stage == "paths":
            self.stage = "conclusion"
            paths = tuple(
                (Text((*self.headers[branch], *self.scheduler.said[branch], 8)),)
                for branch, _ in sorted(ended, key=lambda end: self.headers[end[0]])
            )
            self.context = (*self.context, Block(paths), Text((9,)))
            self._start(self.context, max_tokens=4, consumes=tuple(self.leases))
        else:
            for lease in self.leases:
                self.scheduler.branches.roster.release(lease, 1)
            self.said = [*sorted(self.said[1:-1]), self.said[0], self.said[-1]]
            return True
        return False


TREE = 12 + 4 + 3 * 8 + 1 + 4


def run_all(scheduler: ToyScheduler, requests: list[Request], limit: int = 4000) -> None:
    left = list(requests)
    for request in requests:
        request.begin()
    while left:
        assert scheduler.steps < limit, "no progress"
        scheduler.step()
        left = [request for request in left if not request.go_on()]
    scheduler.drop_all()
    assert len(scheduler.free) == scheduler.info.kv_cells


def requests_of(scheduler: ToyScheduler, number: int) -> list[Request]:
    numbers = itertools.count()
    return [
        Request(scheduler, f"r{n}", tuple((5 * n + i) % 50 for i in range(6 + n)), numbers)
        for n in range(number)
    ]


@pytest.fixture(scope="module")
def quiet() -> list[list[list[int]]]:
    scheduler = ToyScheduler(5000, width=64)
    requests = requests_of(scheduler, 6)
    run_all(scheduler, requests)
    return [request.said for request in requests]


@pytest.mark.parametrize("cells", [400, 150, 80, TREE + 8])
@pytest.mark.parametrize("width", [1, 3, 16])
def test_requests_finish_in_any_pool_that_one_fits_in_with_the_tokens_of_a_quiet_run(
    quiet: list[list[list[int]]], cells: int, width: int
) -> None:
    scheduler = ToyScheduler(cells, width)
    requests = requests_of(scheduler, 6)
    run_all(scheduler, requests)
    assert [request.said for request in requests] == quiet


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=30)
def test_aborts_and_released_leases_at_any_time_leave_nothing_behind(seed: int) -> None:
    rng = random.Random(seed)
    scheduler = ToyScheduler(rng.choice([90, 200, 600]), rng.choice([1, 4, 16]))
    started: list[BranchId] = []
    for number in range(25):
        branch = BranchId(1, number)
        stops = (Stop((rng.randrange(50),), (3, 4), rng.random() < 0.5),)
        context: Context = (Text(tuple(rng.choices(range(3), k=rng.randint(1, 12)))),)
        if rng.random() < 0.5:
            path = (Text(tuple(rng.choices(range(2), k=rng.randint(1, 4)))),)
            context = (*context, Block((path, path, ())), Text((1,)))
        scheduler.start(
            Start(
                branch, f"r{number // 3}", context, rng.randint(0, 9), stops=stops, length_tail=(2,)
            )
        )
        started.append(branch)
        for _ in range(rng.randrange(4)):
            scheduler.step()
        if rng.random() < 0.3:
            scheduler.branches.abort(rng.choice(started))
        if rng.random() < 0.2:
            scheduler.branches.roster.end_leases()
    for branch in started:
        finish = scheduler.finish(branch)
        assert finish.reason is not FinishReason.FAILED, finish
    scheduler.drop_all()
    assert len(scheduler.free) == scheduler.info.kv_cells


def test_a_tree_longer_than_a_row_is_refused_though_its_positions_fit() -> None:
    scheduler = ToyScheduler(100)
    wide = Block(tuple((Text((n,) * 30),) for n in range(4)))
    scheduler.start(Start(BranchId(1, 1), "r", (Text((1,)), wide, Text((2,))), 1))
    assert isinstance(scheduler.finish(BranchId(1, 1)).error, RequestTooLarge)


def test_a_branch_takes_over_what_another_computed_while_it_waited() -> None:
    scheduler = ToyScheduler(200, width=1)
    for number in range(2):
        scheduler.start(Start(BranchId(1, number), f"r{number}", (Text(tuple(range(20))),), 3))
    assert scheduler.finish(BranchId(1, 0)).reused_tokens == 0
    assert scheduler.finish(BranchId(1, 1)).reused_tokens == 19  # one is computed for its logits


def test_a_dropped_stop_is_no_part_of_the_context() -> None:
    scheduler = ToyScheduler(200)
    scheduler.start(Start(BranchId(1, 0), "r", (Text((1, 2)),), 5))
    scheduler.finish(BranchId(1, 0))
    stops = (Stop((scheduler.said[BranchId(1, 0)][0],), (3, 4), keep=False),)
    scheduler.start(Start(BranchId(1, 1), "s", (Text((1, 2)),), 5, stops=stops))
    finish = scheduler.finish(BranchId(1, 1))
    assert (finish.reason, finish.context_tokens) == (FinishReason.STOP, 2 + 2)
