"""Finished paths share one sequence when ids run out; what a join sees stays exact."""

from __future__ import annotations

import pytest

from multiverse_shared.tree import Block, Text, count
from multiverse_worker.contract import Finish
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from tests.unit.worker.answers import answers
from tests.unit.worker.client import Client, Outcome, Seen, assert_nothing_held, text
from tests.unit.worker.symbolic import (
    expected_greedy,
    expected_logits,
    library_of,
    symbolic_engine,
)

PROMPT = text(*range(1, 11))
PATHS = tuple(text(20 + number, 21, 22 + number) for number in range(6))


def folds(engine: LlamaCppEngine) -> int:
    return engine._pressure.folding.folds


def run_paths(client: Client, paths: tuple[Text, ...] = PATHS) -> tuple[Outcome, list[Finish]]:
    """A plan, and paths one after another."""
    plan = client.run(PROMPT)
    fields = {"base_key": plan.finish.key, "block": plan.start.branch}
    return plan, [client.run(path, **fields).finish for path in paths]


def join(client: Client, *leases: str) -> Outcome:
    block = Block(tuple((path,) for path in PATHS))
    return client.run(PROMPT, block, text(40), max_tokens=3, consumes=leases)


@pytest.mark.parametrize("sequences", [3, 4, 5])
def test_six_paths_are_joined_from_few_sequences_without_computing_them_again(
    sequences: int,
) -> None:
    with symbolic_engine(sequences=sequences) as engine:
        client, seen = Client(engine), Seen.by(engine)
        plan, ends = run_paths(client)
        computed = library_of(engine).computed
        joined = join(client, plan.finish.lease, *(end.lease for end in ends))
        assert folds(engine) > 0
        assert library_of(engine).computed == computed + 1 + 3
        assert joined.finish.reused_tokens == count((PROMPT, *PATHS))
        context = (PROMPT, Block(tuple((path,) for path in PATHS)), text(40, *joined.ids))
        assert seen.difference(joined.start.branch, expected_logits(context)) == 0
        client.release(joined.finish.lease)
        engine.drop_cached()
        assert_nothing_held(engine)


def test_nothing_is_folded_while_there_are_sequences() -> None:
    with symbolic_engine(sequences=16) as engine:
        client = Client(engine)
        plan, ends = run_paths(client)
        join(client, plan.finish.lease, *(end.lease for end in ends))
        assert folds(engine) == 0


def test_a_request_of_twelve_paths_needs_five_sequences() -> None:
    """The plan's, the folded paths' and those of the paths that run."""
    computed = []
    for sequences in (32, 5):
        with symbolic_engine(sequences=sequences, batch_tokens=64) as engine:
            client = Client(engine)
            client.drive(*(answer.run() for answer in answers(client, 1, paths=12)))
            computed.append(library_of(engine).computed)
            totals = engine.load().totals
            assert (totals.revocations, totals.preemptions) == (0, 0)
    assert computed[0] == computed[1]


def test_a_path_that_is_folded_may_still_be_forked() -> None:
    """It was a plan, after all: it is computed again, with the same tokens."""
    with symbolic_engine(sequences=3) as engine:
        client = Client(engine)
        _, ends = run_paths(client)
        assert folds(engine) > 0
        fields = {"base_key": ends[0].key, "max_tokens": 4}
        assert client.run(text(45), **fields).ids == expected_greedy(
            (PROMPT, PATHS[0], text(45)), 4
        )


def test_each_lease_on_folded_paths_ends_by_itself() -> None:
    with symbolic_engine(sequences=3) as engine:
        client = Client(engine)
        plan, ends = run_paths(client)
        for end in ends[:-1]:
            client.release(end.lease)
            engine.step()
        assert engine.load().leases == 2
        assert engine.load().kv_cells_leased > 0
        for lease in (ends[-1].lease, plan.finish.lease):
            client.release(lease)
        assert engine.load().kv_cells_leased == 0


def test_a_join_of_a_part_of_folded_paths_is_exact() -> None:
    with symbolic_engine(sequences=3) as engine:
        client, seen = Client(engine), Seen.by(engine)
        run_paths(client)
        assert folds(engine) > 0
        context = (PROMPT, Block(tuple((path,) for path in PATHS[:2])), text(40))
        joined = client.run(*context)
        assert seen.difference(joined.start.branch, expected_logits(context)) == 0


def test_equal_paths_are_not_folded_into_one() -> None:
    same = (text(20, 21), text(20, 21), text(30), text(20, 21))
    with symbolic_engine(sequences=4) as engine:
        client, seen = Client(engine), Seen.by(engine)
        plan, ends = run_paths(client, same)
        context = (PROMPT, Block(tuple((path,) for path in same)), text(40))
        leases = [plan.finish.lease, *(end.lease for end in ends)]
        joined = client.run(*context, consumes=tuple(leases))
        assert seen.difference(joined.start.branch, expected_logits(context)) == 0


def test_a_finished_path_holds_no_slot_of_the_batch() -> None:
    with symbolic_engine() as engine:
        client = Client(engine)
        plan = client.run(PROMPT)
        fields = {"base_key": plan.finish.key, "block": plan.start.branch}
        client.start(text(20), max_tokens=50, **fields)
        short = client.start(text(21), max_tokens=2, **fields)
        client.outcome(short)
        client.step()
        load = engine.load()
        assert (load.running, load.step_tokens, load.leases) == (1, 1, 2)
