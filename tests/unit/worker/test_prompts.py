"""Prompts that are evicted, and come back from a store beside the pool."""

from __future__ import annotations

import itertools

import pytest

from multiverse_shared.keys import CHUNK
from multiverse_shared.tree import Block, Context, Text
from multiverse_worker.contract import BranchId, Finish, Ids, Start
from tests.unit.worker.test_branches import Request, run_all
from tests.unit.worker.toy_scheduler import ToyScheduler

CELLS = 400
PROMPT = tuple(at * 3 % 47 for at in range(100))
_numbers = itertools.count()


def run(
    scheduler: ToyScheduler, *context: Text | Block, salt: bytes = b"", tokens: int = 5
) -> Finish:
    """Its lease is given up, so all of it may be evicted."""
    branch = BranchId(1, next(_numbers))
    scheduler.start(Start(branch, f"r{branch.number}", context, max_tokens=tokens, salt=salt))
    finish = scheduler.finish(branch)
    assert finish.error is None
    scheduler.branches.roster.release(finish.lease, 1)
    return finish


def evict(scheduler: ToyScheduler) -> None:
    assert scheduler.room(CELLS)


def said(scheduler: ToyScheduler) -> list[int]:
    return list(scheduler.said.values())[-1]


def test_an_evicted_prompt_is_not_computed_again() -> None:
    scheduler = ToyScheduler(CELLS, stores=True)
    run(scheduler, Text(PROMPT))
    first = said(scheduler)
    evict(scheduler)
    computed = scheduler.computed
    assert run(scheduler, Text(PROMPT)).reused_tokens == len(PROMPT) - 1
    assert scheduler.computed - computed == 1 + 5  # the last of the prompt, and what was sampled
    assert said(scheduler) == first
    counts = scheduler.branches.traffic.orders.counts
    assert (counts.host_stored_tokens, counts.host_fetched_tokens) == (100, 99)


def test_without_a_store_nothing_is_noted_kept_or_restored() -> None:
    scheduler = ToyScheduler(CELLS)
    run(scheduler, Text(PROMPT))
    assert all(node.length > len(PROMPT) for node in scheduler.tree._nodes), "it was cut"
    evict(scheduler)
    assert run(scheduler, Text(PROMPT)).reused_tokens == 0
    assert not scheduler.store.held
    counts = scheduler.branches.traffic.orders.counts
    assert (counts.host_stored_tokens, counts.host_fetched_tokens) == (0, 0)


def test_what_was_sampled_is_not_kept_and_neither_is_less_than_a_chunk() -> None:
    scheduler = ToyScheduler(CELLS, stores=True)
    run(scheduler, Text(PROMPT), tokens=40)
    run(scheduler, Text((1,) * (CHUNK - 1)))
    evict(scheduler)
    assert scheduler.store.kept == [PROMPT]


def test_prompts_that_begin_alike_are_kept_once() -> None:
    scheduler = ToyScheduler(CELLS, stores=True)
    other: Ids = (*PROMPT[:80], *range(20))
    run(scheduler, Text(PROMPT))
    run(scheduler, Text(other))
    evict(scheduler)
    assert len(scheduler.store.held) == 120
    assert run(scheduler, Text(other)).reused_tokens == 99
    assert run(scheduler, Text(PROMPT[:90])).reused_tokens == 80


def test_tenants_do_not_get_the_prompts_of_others() -> None:
    scheduler = ToyScheduler(CELLS, stores=True)
    run(scheduler, Text(PROMPT), salt=b"one")
    evict(scheduler)
    assert run(scheduler, Text(PROMPT), salt=b"two").reused_tokens == 0
    assert run(scheduler, Text(PROMPT)).reused_tokens == 0
    assert run(scheduler, Text(PROMPT), salt=b"one").reused_tokens == 99


BEHIND_A_BLOCK: Context = (Block(((Text((1,)),), (Text((2,)),))), Text(PROMPT))
AT_ANOTHER_PLACE: Context = (Text(PROMPT, start=3),)


@pytest.mark.parametrize("context", [BEHIND_A_BLOCK, AT_ANOTHER_PLACE])
def test_text_that_sees_something_or_stands_elsewhere_is_neither_kept_nor_restored(
    context: Context,
) -> None:
    scheduler = ToyScheduler(CELLS, stores=True)
    run(scheduler, *context)
    evict(scheduler)
    assert not scheduler.store.held
    run(scheduler, Text(PROMPT))
    evict(scheduler)
    assert run(scheduler, *context).reused_tokens == 0


@pytest.mark.parametrize("cells", [1200, 500, 180])
def test_forking_requests_under_pressure_say_what_they_say_without_a_store(cells: int) -> None:
    def requests(scheduler: ToyScheduler) -> list[Request]:
        numbers = itertools.count()
        prompts = [tuple((5 * n + i) % 50 for i in range(80 + n)) for n in range(6)]
        return [Request(scheduler, f"r{n}", ids, numbers) for n, ids in enumerate(prompts * 2)]

    quiet, crowded = ToyScheduler(10_000, width=64), ToyScheduler(cells, width=3, stores=True)
    expected, found = requests(quiet), requests(crowded)
    for half in (slice(0, 6), slice(6, 12)):
        run_all(quiet, expected[half])
        run_all(crowded, found[half])
    assert [request.said for request in found] == [request.said for request in expected]
    prompts = {request.prompt for request in found}
    assert all(any(ids == prompt[: len(ids)] for prompt in prompts) for ids in crowded.store.kept)
