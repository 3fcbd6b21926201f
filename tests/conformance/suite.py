"""The conformance suite: every engine must compute what the oracle computes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from multiverse_shared.tree import Context, count
from multiverse_worker.contract import Engine, Logits
from tests.conformance.drive import Comparison, Pump, TreeRun
from tests.conformance.oracle import VOCAB, Layout, Oracle, lay_out
from tests.conformance.trees import with_ids


@dataclass
class Case:
    """A tree with its reference logits, where there is an oracle."""

    tree: Context
    indices: Context
    layout: Layout
    expected: Logits | None  # [S, vocab]
    repetitive: bool  # parts of it may be taken for others, and not be computed

    @classmethod
    def of(
        cls,
        shape: Context,
        oracle: Oracle | None,
        rng: random.Random,
        different_ids: int | None = None,
    ) -> Case:
        """With few `different_ids` siblings often begin alike, and whole paths are equal."""
        size = count(shape)
        ids = different_ids or (oracle.vocab_size if oracle else VOCAB)
        tree = with_ids(shape, [rng.randrange(ids) for _ in range(size)])
        layout = lay_out(tree)
        indices = with_ids(shape, list(range(size)))
        expected = oracle.logits(layout) if oracle else None
        return cls(tree, indices, layout, expected, different_ids is not None)


async def compare(
    engine: Engine,
    cases: Sequence[Case],
    *,
    at_once: int = 1,
    drop_before_join: bool = False,
    seed: int = 0,
    after_step: Callable[[], None] = lambda: None,
    progress: Callable[[], None] = lambda: None,
) -> Comparison:
    """Run the cases, `at_once` at a time, and compare the logits of every token computed."""
    engine.drop_cached()  # what was compared before would not be computed again
    pump = Pump(engine, after_step)
    pumping = asyncio.create_task(pump.pump())
    slots = asyncio.Semaphore(at_once)

    async def one(number: int, case: Case) -> None:
        async with slots:
            rng = random.Random(seed * 100_003 + number)
            run = TreeRun(engine, pump, rng, f"case-{number}", case.expected, drop_before_join)
            if at_once == 1:
                engine.drop_cached()  # so that every token of the case is computed
            await run.run(case.tree, case.indices)
            compares = case.expected is not None and not (case.repetitive or drop_before_join)
            if at_once == 1 and compares:
                assert len(run.covered) == count(case.tree), "tokens were not compared"
            progress()

    async def everything() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, case in enumerate(cases):
                tasks.create_task(one(number, case))

    work = asyncio.create_task(everything())
    await asyncio.wait([work, pumping], return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        pumping.cancel()
        work.result()
    else:
        work.cancel()
        pumping.result()
    engine.observer = None
    return pump.comparison
