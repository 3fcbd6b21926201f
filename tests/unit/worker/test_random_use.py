"""Whatever is asked in whatever order, the books add up, tokens are right, nothing is left."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from multiverse_shared.errors import NotFound
from multiverse_shared.keys import content_keys
from multiverse_shared.tree import Block, Context, Text, normalise
from multiverse_worker.contract import BranchId, FinishReason, Ids
from tests.unit.worker.client import (
    AnyEngine,
    Client,
    Outcome,
    assert_nothing_held,
    leases_of,
    text,
)
from tests.unit.worker.simulated import expected_noise, sim_engine
from tests.unit.worker.symbolic import expected_greedy, symbolic_engine


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Router:
    """Starts, forks, joins, aborts and forgets at random.

    `expected` says what must be written behind a context.
    """

    client: Client
    rng: random.Random
    clock: Clock
    expected: Callable[[Context, int], Ids]
    running: dict[BranchId, Context] = field(default_factory=dict)
    ended: list[tuple[Context, Outcome]] = field(default_factory=list)
    checked: int = 0

    def act(self) -> None:
        action = self.rng.choices(
            [self.begin, self.extend, self.join, self.abort, self.release, self.drop, self.wait],
            [4, 4, 4, 3, 3, 0.3, 0.3],
        )[0]
        action()
        for _ in range(self.rng.randint(0, 4)):
            self.client.step()
        self.collect()

    def start(self, before: Context, *follows: Text | Block, **fields: object) -> None:
        context = normalise((*before, *follows))
        request = f"r{self.rng.randint(0, 4)}"
        sent = follows if fields.get("base_key") else context
        tokens = self.rng.randint(0, 5) if isinstance(context[-1], Text) else 0
        tail = tuple(self.rng.choices(range(4), k=self.rng.randint(0, 2)))
        branch = self.client.start(
            *sent, request=request, max_tokens=tokens, length_tail=tail, **fields
        )
        self.running[branch] = context

    def some_text(self) -> Text:
        return Text(tuple(self.rng.choices(range(3), k=self.rng.randint(1, 6))))

    def begin(self) -> None:
        self.start((), text(*range(10, 10 + self.rng.randint(1, 12))), self.some_text())

    def extend(self) -> None:
        """A path of a finished branch, sometimes by its key."""
        if self.ended:
            context, outcome = self.rng.choice(self.ended)
            base = outcome.finish.key if self.rng.random() < 0.5 else b""
            block = outcome.start.branch if self.rng.random() < 0.5 else None
            self.start(context, self.some_text(), base_key=base, block=block)

    def join(self) -> None:
        """Finished branches that go on from a common one, or texts made up, as paths."""
        if not self.ended:
            return
        before, parent = self.rng.choice(self.ended)
        if len(before) > 6 or sum(len(t.ids) for t in before if isinstance(t, Text)) > 60:
            return
        size = len(before)
        paths: list[Context] = [(self.some_text(),) for _ in range(self.rng.randint(0, 2))]
        leases = [parent.finish.lease]
        for context, outcome in self.rng.sample(self.ended, min(8, len(self.ended))):
            if len(context) == size and size and context[:-1] == before[:-1]:
                last, own = before[-1], context[-1]
                if isinstance(last, Text) and isinstance(own, Text):
                    rest = own.ids[len(last.ids) :]
                    if rest and own.ids[: len(last.ids)] == last.ids:
                        paths.append((Text(rest),))
                        leases.append(outcome.finish.lease)
        if paths:
            follows = [self.some_text()] if self.rng.random() < 0.8 else []
            self.start(before, Block(tuple(paths)), *follows, consumes=tuple(leases))

    def abort(self) -> None:
        if self.running:
            self.client.engine.abort(self.rng.choice(list(self.running)))

    def release(self) -> None:
        if self.ended:
            _, outcome = self.ended.pop(self.rng.randrange(len(self.ended)))
            self.client.release(outcome.finish.lease)

    def drop(self) -> None:
        self.client.engine.drop_cached()

    def wait(self) -> None:
        self.clock.now += self.rng.choice([1, 70])

    def collect(self) -> None:
        """Check what has ended against the definition."""
        for branch in [b for b in self.running if b in self.client.outcomes]:
            context, outcome = self.running.pop(branch), self.client.outcomes[branch]
            tokens = outcome.start.max_tokens
            if outcome.finish.reason is FinishReason.LENGTH:
                self.checked += 1
                assert outcome.ids == self.expected(context, tokens)
                after = Text(outcome.ids + outcome.finish.appended)
                whole = normalise((*context, after))
                namespace = self.client.engine.info.namespace
                assert outcome.finish.key == content_keys(whole, namespace)[-1].key
                self.ended.append((whole, outcome))
            elif outcome.finish.reason is FinishReason.ABORTED:
                assert outcome.ids == self.expected(context, len(outcome.ids))
            else:
                assert isinstance(outcome.finish.error, NotFound), outcome.finish


def finish_everything(router: Router, engine: AnyEngine) -> None:
    router.client.settle()
    router.collect()
    for _, outcome in router.ended:
        router.client.release(outcome.finish.lease)
    engine.drop_cached()
    assert_nothing_held(engine)


ENGINES = {"llamacpp": (symbolic_engine, expected_greedy), "sim": (sim_engine, expected_noise)}
any_engine = pytest.mark.parametrize(("opened", "expected"), ENGINES.values(), ids=ENGINES)


@any_engine
@pytest.mark.parametrize(
    ("cells", "sequences"), [(4096, 64), (256, 64), (4096, 6), (256, 6)], ids=str
)
def test_random_use_is_exact_and_leaves_nothing(
    opened: Any, expected: Callable[[Context, int], Ids], cells: int, sequences: int
) -> None:
    clock = Clock()
    with opened(kv_cells=cells, sequences=sequences, batch_tokens=16, clock=clock) as engine:
        client = Client(engine, limit=20_000)
        router = Router(client, random.Random(cells + sequences), clock, expected)
        for _ in range(300):
            router.act()
        finish_everything(router, engine)
    assert router.checked > 60


@any_engine
def test_a_lost_stream_leaves_nothing_after_its_grace(
    opened: Any, expected: Callable[[Context, int], Ids]
) -> None:
    clock = Clock()
    with opened(batch_tokens=16, clock=clock) as engine:
        router = Router(Client(engine), random.Random(3), clock, expected)
        for _ in range(60):
            router.act()
        engine.lose_stream(1)
        router.client.settle()
        clock.now += 5
        engine.tick()
        assert len(leases_of(engine)) == 0
        engine.drop_cached()
        assert_nothing_held(engine)
