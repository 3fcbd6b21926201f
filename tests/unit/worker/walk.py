"""Takes an engine through a given context tree as a router would: fork, decode, join."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from multiverse_shared.errors import NotFound
from multiverse_shared.keys import content_keys
from multiverse_shared.tree import Block, Context, Text, normalise
from multiverse_worker.contract import BranchId, Finish
from tests.unit.worker.client import Client


@dataclass
class Walk:
    """One tree as one request; what a start brings, what is scripted and what is a tail differs."""

    client: Client
    request: str
    rng: random.Random
    contexts: dict[BranchId, Context] = field(default_factory=dict)  # what each branch became

    async def run(self, tree: Context) -> Finish | None:
        finish, leases = await self._items((), normalise(tree), None)
        for lease in leases:
            self.client.release(lease)
        return finish

    async def _items(
        self, before: Context, items: Context, base: tuple[Finish, int] | None
    ) -> tuple[Finish | None, tuple[str, ...]]:
        """Run `items` behind `before`; the last finish, and the leases that it all rests on.

        `base` is the finish of the first so many items of `before`.
        """
        finish: Finish | None = None
        leases: tuple[str, ...] = ()
        for item in items:
            if isinstance(item, Text):
                finish = await self._text(before, item, base, leases)
                leases, base = (finish.lease,), (finish, len(before) + 1)
            else:
                leases += await self._paths(before, item, base)
            before = (*before, item)
        return finish, leases

    async def _paths(
        self, before: Context, block: Block, base: tuple[Finish, int] | None
    ) -> tuple[str, ...]:
        """Paths at once or one after another; the leases of all of them."""
        if self.rng.random() < 0.5:
            ends = [await self._items(before, path, base) for path in block.paths]
        else:
            async with asyncio.TaskGroup() as tasks:
                started = [
                    tasks.create_task(self._items(before, path, base)) for path in block.paths
                ]
            ends = [task.result() for task in started]
        return tuple(lease for _, leases in ends for lease in leases)

    async def _text(
        self,
        before: Context,
        item: Text,
        base: tuple[Finish, int] | None,
        consumes: tuple[str, ...],
    ) -> Finish:
        size = len(item.ids)
        header = self.rng.randint(1, size)
        tail = self.rng.randint(0, size - header)
        decode = {
            "request": self.request,
            "max_tokens": size - header - tail,
            "script": item.ids[header : size - tail],
            "length_tail": item.ids[size - tail :],
            "consumes": consumes if before and isinstance(before[-1], Block) else (),
        }
        brought = Text(item.ids[:header])
        outcome = None
        if base and self.rng.random() < 0.5:
            follows = (*before[base[1] :], brought)
            outcome = await self.client.ended(*follows, base_key=base[0].key, **decode)
        if outcome is None or isinstance(outcome.finish.error, NotFound):
            outcome = await self.client.ended(*before, brought, **decode)
        assert outcome.finish.lease, outcome.finish
        namespace = self.client.engine.info.namespace
        assert outcome.finish.key == content_keys((*before, item), namespace)[-1].key
        self.contexts[outcome.start.branch] = (*before, item)
        return outcome.finish
