"""A backend in this process, with everything that may go wrong on command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from multiverse_worker.tier.backend import Backend, BackendError, BackendFull
from multiverse_worker.tier.pieces import Name


class MemoryBackend(Backend):
    """`asked` and `put_names` tell what was called. Several may have their `blocks` in common."""

    def __init__(self, blocks: dict[Name, bytes] | None = None) -> None:
        self.blocks = {} if blocks is None else blocks
        self.asked: list[list[Name]] = []
        self.put_names: list[Name] = []
        self.gate = asyncio.Event()  # closed: nothing is answered
        self.gate.set()
        self.dead = False
        self.full = False
        self.spoil: Callable[[bytes], bytes] = lambda block: block
        self.at_once = self.most_at_once = 0
        self.closed = False

    async def get(self, names: Sequence[Name]) -> list[bytes | None]:
        self.asked.append(list(names))
        await self._pass()
        found = [self.blocks.get(name) for name in names]
        return [self.spoil(block) if block is not None else None for block in found]

    async def put(self, name: Name, block: bytes) -> None:
        self.put_names.append(name)
        await self._pass()
        if self.full:
            raise BackendFull("full")
        self.blocks[name] = block

    async def _pass(self) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
            if self.dead:
                raise BackendError("dead")
        finally:
            self.at_once -= 1

    async def close(self) -> None:
        self.closed = True
