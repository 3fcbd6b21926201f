"""The accounts of workers add up to the answers in flight, at all times, whatever happens."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.coordinator import Coordinator
from multiverse_router.events import AnswerEvent
from multiverse_shared.dialect import Tag
from multiverse_shared.errors import MultiverseError
from tests.unit.router.hand_fed import HandFedLink, fleet_of, path, plan, request, tag, text
from tests.unit.router.served import EOS, served_model, tokenizer

WORKERS = 3
STEPS = 150
_CODES = ("INTERNAL", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "NOT_FOUND")


class World:
    """Answers on workers that are played at random."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.links = [HandFedLink(address=f"worker:{n}") for n in range(WORKERS)]
        siblings = self.rng.choice(("local", "spread"))
        self.fleet = fleet_of(*self.links, reroute_s=self.rng.choice((0, 30)), siblings=siblings)
        self.tasks: set[asyncio.Task[None]] = set()
        self.open: dict[int, tuple[HandFedLink, pb.Start]] = {}
        self.happened: set[str] = set()

    def begin(self) -> None:
        model = served_model()
        events: list[AnswerEvent] = []
        coordinator = Coordinator(self.fleet.pool(model), model, request(), events.append)
        task = asyncio.create_task(self._run(coordinator))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, coordinator: Coordinator) -> None:
        try:
            await coordinator.run()
            self.happened.add("success")
        except MultiverseError:
            self.happened.add("error")

    async def settle(self) -> None:
        """Let everybody do what there is to do, then read the commands."""
        for _ in range(12):
            await asyncio.sleep(0)
        for link in self.links:
            for command in link.take():
                if command.HasField("start"):
                    self.open[command.start.branch] = (link, command.start)
                elif command.HasField("abort"):
                    self.open.pop(command.abort.branch, None)

    def act(self) -> None:
        """One thing happens."""
        kind = self.rng.choices(
            ("begin", "say", "end", "fail", "lose", "back", "leave"), (6, 6, 14, 2, 1, 3, 1)
        )[0]
        if kind == "begin":
            self.begin()
        elif kind == "leave" and self.tasks:
            self.rng.choice(sorted(self.tasks, key=id)).cancel()
            self.happened.add("cancel")
        elif kind == "lose":
            link = self.rng.choice(self.links)
            if link.connected:
                self.happened.add("migration")
                link.lose()
                self.open = {n: pair for n, pair in self.open.items() if pair[0] is not link}
        elif kind == "back":
            for link in self.links:
                if not link.connected:
                    link.come_back()
        elif self.open:
            self._play(kind)

    def _play(self, kind: str) -> None:
        number = self.rng.choice(sorted(self.open))
        link, start = self.open[number]
        if kind == "say":
            link.decoded(start, text("x"))
            return
        del self.open[number]
        if kind == "fail":
            self.happened.add("retry")
            link.failed(start, self.rng.choice(_CODES))
            return
        link.ended(start, self._end(start), f"lease {number}")

    def _end(self, start: pb.Start) -> list[int]:
        if "." in start.sampling.stream:
            return path("p")
        if start.consumes or len(start.context.items) > 1:
            end = [tag(Tag.JOIN_CLOSE), tag(Tag.BLOCK_CLOSE)]
            return [*end, tokenizer().token_id(EOS) or 0]
        return plan("1:a", "2:b")

    def check(self) -> None:
        assert self.fleet.requests == len(self.tasks), self.happened
        assert all(worker.requests >= 0 for worker in self.fleet.workers)
        for link in self.links:
            assert link.branches >= 0
            assert link.tokens >= link.loading >= 0
            assert link.branches or not link.tokens


@pytest.mark.parametrize("seed", range(5))
async def test_the_sum_of_accounts_is_the_number_of_answers_in_flight(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.act()
        await world.settle()
        world.check()
    for task in list(world.tasks):
        task.cancel()
    await asyncio.gather(*world.tasks, return_exceptions=True)
    assert world.fleet.requests == 0
    assert sum(link.branches + link.tokens + link.loading for link in world.links) == 0
    assert {"success", "cancel", "migration", "retry"} <= world.happened
