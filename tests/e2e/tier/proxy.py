"""A TCP proxy before a server, which may be slow, garble what comes back, or break off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from random import Random

SLOW_S = 2.0
_READ = 1 << 16
_LARGE = 1024  # bytes in one read that are part of a block


class Harm(StrEnum):
    """What the proxy does to answers."""

    NONE = "none"
    SLOW = "slow"  # each comes two seconds later
    FLIP = "flip"  # bytes of blocks are changed
    CUT = "cut"  # the connection ends in the middle of a block


class Proxy:
    """`harm` may be changed at any time; it counts for what is sent from then on."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._rng = Random(1)
        self.harm = Harm.NONE
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Proxy]:
        """Listens on `port` inside."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there_reader, there = await asyncio.open_connection("127.0.0.1", self._target)
            try:
                async with asyncio.TaskGroup() as tasks:
                    ways = [
                        tasks.create_task(self._forth(reader, there)),
                        tasks.create_task(self._back(there_reader, writer)),
                    ]
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    for way in ways:
                        way.cancel()
            finally:
                there.close()
        writer.close()

    async def _forth(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_READ):
                writer.write(data)
                await writer.drain()

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_READ):
                if self.harm is Harm.SLOW:
                    await asyncio.sleep(SLOW_S)
                if self.harm is Harm.CUT and len(data) > _LARGE:
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                    return
                writer.write(self._flipped(data) if self.harm is Harm.FLIP else data)
                await writer.drain()

    def _flipped(self, data: bytes) -> bytes:
        if len(data) <= _LARGE:
            return data
        changed = bytearray(data)
        for _ in range(4):
            changed[self._rng.randrange(_LARGE // 2, len(data))] ^= 1 << self._rng.randrange(8)
        return bytes(changed)
