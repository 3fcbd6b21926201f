"""What the published engine got wrong, lesson by lesson, as behaviour that we keep."""

from __future__ import annotations

import random
from typing import Any

from multiverse_shared.errors import InvalidRequest, NotFound, RequestTooLarge
from multiverse_shared.tree import Block, Text, linearise
from multiverse_worker.contract import FinishReason, Sampling
from tests.conformance.oracle import Oracle
from tests.sglang.player import Player, assert_greedy
from tests.unit.worker.answers import answers
from tests.unit.worker.client import text

PROMPT = text(*range(30, 50))
CYCLES = 300


def fork(player: Player, request: str, paths: int = 3, **fields: Any) -> Any:
    """A plan and its paths, run to their ends: what a join starts from."""
    plan = player.run(PROMPT, request=request, max_tokens=3)
    before = (PROMPT, Text(plan.ids))
    started = [
        player.start(
            text(60, 70 + number),
            request=request,
            base_key=plan.finish.key,
            block=plan.start.branch,
            max_tokens=5,
            length_tail=(61,),
            **fields,
        )
        for number in range(paths)
    ]
    ends = [player.outcome(branch) for branch in started]
    inner = tuple((text(60, 70 + number, *end.ids, 61),) for number, end in enumerate(ends))
    leases = (plan.finish.lease, *(end.finish.lease for end in ends))
    return before, Block(inner), leases


def test_lesson_1_many_forks_joins_and_aborts_leave_nothing_behind(player: Player) -> None:
    """SGLang checks free + cached + used = pool after every step and ends when it is not so."""
    rng = random.Random(0)
    for burst in range(CYCLES // 20):
        plans = [
            player.start(text(*rng.choices(range(90), k=4)), request=f"{burst}-{n}", max_tokens=1)
            for n in range(20)
        ]
        ended = [player.outcome(plan) for plan in plans]
        paths = [
            player.start(
                text(rng.randrange(90)),
                request=plan.start.request,
                base_key=plan.finish.key,
                block=plan.start.branch,
                max_tokens=rng.randint(0, 3),
            )
            for plan in ended
            for _ in range(2)
        ]
        for _ in range(rng.randrange(4)):
            player.step()
        for path in rng.sample(paths, 10):
            player.engine.abort(path)
        for path in paths:
            outcome = player.outcome(path)
            if rng.random() < 0.5:
                player.release(outcome.finish.lease)
    player.settle()
    player.assert_nothing_is_held()


def test_lesson_2_a_lease_passes_ordinary_eviction_by(player: Player) -> None:
    held = player.run(PROMPT, request="old", max_tokens=4)
    for number in range(3):  # more than the pool holds
        flood = text(*(random.Random(number).choices(range(90), k=1000)))
        other = player.run(flood, request=f"flood-{number}", max_tokens=1)
        player.release(other.finish.lease)
    again = player.run(PROMPT, Text(held.ids), text(1), request="old", max_tokens=1)
    assert again.finish.reused_tokens == len(PROMPT.ids) + 4


def test_lesson_2_a_revoked_lease_is_computed_again_to_the_same_tokens(
    player: Player, oracle: Oracle
) -> None:
    before, block, leases = fork(player, "r")
    header = text(62)
    player.engine.drop_cached()
    player.step()
    joined = player.run(*before, block, header, request="r", max_tokens=6, consumes=leases)
    assert joined.finish.reused_tokens == 2  # of this load itself: its paths begin alike
    assert_greedy(oracle, (*before, block, header), joined)
    late = player.run(text(1), request="r", base_key=b"gone", max_tokens=1)
    assert isinstance(late.finish.error, NotFound)


def test_lesson_3_plain_text_and_joined_paths_of_the_same_ids_are_not_taken_for_each_other(
    player: Player, oracle: Oracle
) -> None:
    before, block, leases = fork(player, "r")
    stitched = (*before, block, text(62))
    plain = (Text(linearise(stitched)),)
    of_stitched = player.run(*stitched, request="r", max_tokens=6, consumes=leases)
    of_plain = player.run(*plain, request="p", max_tokens=6)
    assert_greedy(oracle, stitched, of_stitched)
    assert_greedy(oracle, plain, of_plain)
    assert of_plain.finish.key != of_stitched.finish.key
    first_path = len(linearise((*before, *block.paths[0])))
    assert of_plain.finish.reused_tokens <= first_path


def test_lesson_4_a_refused_join_loses_nothing(player: Player) -> None:
    before, block, leases = fork(player, "r")
    refused = player.run(*before, block, text(62), request="r", max_tokens=5000, consumes=leases)
    assert isinstance(refused.finish.error, RequestTooLarge)
    joined = player.run(*before, block, text(62), request="r", max_tokens=3, consumes=leases)
    held = len(linearise((*before, block)))
    assert joined.finish.reused_tokens == held  # every path was still there


def test_lesson_5_nonsense_fails_alone(player: Player, oracle: Oracle) -> None:
    neighbour = player.start(PROMPT, request="n", max_tokens=20)
    player.step()
    for context, fields in [
        ((), {}),
        ((text(),), {}),
        ((text(96),), {}),
        ((text(-1),), {}),
        ((PROMPT, Block(((),))), {"max_tokens": 3}),
        ((PROMPT,), {"length_tail": (1 << 31,)}),
    ]:
        outcome = player.run(*context, request="x", **fields)
        assert outcome.finish.reason is FinishReason.FAILED
        assert isinstance(outcome.finish.error, InvalidRequest)
    assert_greedy(oracle, (PROMPT,), player.outcome(neighbour))


def test_lesson_6_positions_and_tokens_are_both_bounded(player: Player) -> None:
    info = player.engine.info
    too_far = player.run(PROMPT, request="r", max_tokens=info.context_length)
    assert isinstance(too_far.finish.error, RequestTooLarge)
    wide = Block(tuple((text(*[number] * 1000),) for number in range(5)))
    too_wide = player.run(PROMPT, wide, text(1), request="r", max_tokens=1)
    assert isinstance(too_wide.finish.error, RequestTooLarge)


def test_lesson_7_positions_do_not_depend_on_when_a_path_is_admitted(
    player: Player, oracle: Oracle
) -> None:
    plan = player.run(PROMPT, request="r", max_tokens=3)
    before = (PROMPT, Text(plan.ids))
    early = player.start(text(60), request="r", base_key=plan.finish.key, max_tokens=12)
    crowd = [
        player.start(text(*[number] * 40), request=f"c{number}", max_tokens=8)
        for number in range(10)
    ]
    for _ in range(3):
        player.step()
    late = player.start(text(61), request="r", base_key=plan.finish.key, max_tokens=12)
    assert_greedy(oracle, (*before, text(60)), player.outcome(early))
    assert_greedy(oracle, (*before, text(61)), player.outcome(late))
    for branch in crowd:
        player.outcome(branch)


def test_lesson_8_an_abort_ends_every_branch_and_usage_is_exact(player: Player) -> None:
    plan = player.run(PROMPT, request="r", max_tokens=3)
    assert plan.finish.context_tokens == len(PROMPT.ids) + 3
    paths = [
        player.start(
            text(60, number),
            request="r",
            base_key=plan.finish.key,
            max_tokens=400,
            sampling=Sampling(logprobs=True),
        )
        for number in range(4)
    ]
    while not all(player.said(path) for path in paths):
        player.step()
    for path in paths:
        player.engine.abort(path)
    for path in paths:
        outcome = player.outcome(path)
        assert outcome.finish.reason is FinishReason.ABORTED
        assert len(outcome.logprobs) == len(outcome.ids) > 0
    assert player.engine.load().leases == 1


def test_lesson_9_a_neighbour_goes_on_while_others_fork_and_join(player: Player) -> None:
    neighbour = player.start(PROMPT, request="n", max_tokens=150)
    gaps: list[int] = []
    last = [0, 0]  # tokens said, steps computed by then

    def watch() -> None:
        said = len(player.said(neighbour))
        if said > last[0]:
            gaps.append(player.steps_computed - last[1])
            last[:] = [said, player.steps_computed]

    step = player.step

    def step_and_watch() -> None:
        step()
        watch()

    player.step = step_and_watch  # type: ignore[method-assign]
    player.drive(*(answer.run() for answer in answers(player, 3, vocab=90)))
    player.outcome(neighbour)
    assert len(gaps) > 20
    assert max(gaps[1:]) <= 8  # each fork and join is one ordinary prefill step
