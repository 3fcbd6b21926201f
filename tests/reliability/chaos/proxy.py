"""A TCP proxy that does wrong on command: slow links, cut links, links that carry nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

CHUNK = 1 << 16


class FaultProxy:
    """In front of one port; by itself it only carries."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.delay_s = 0.0  # before each chunk
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._links: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[FaultProxy]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        """All connections of the moment break."""
        for link in self._links:
            link.cancel()

    def stop(self) -> None:
        """Connections stay, and carry nothing until `go`."""
        self._open.clear()

    def go(self) -> None:
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._links.add(task)
        task.add_done_callback(self._links.discard)
        with suppress(OSError, asyncio.CancelledError):
            try:
                await self._carry(reader, writer)
            finally:
                writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        pipes = [
            asyncio.create_task(self._pipe(reader, far_writer)),
            asyncio.create_task(self._pipe(far_reader, writer)),
        ]
        try:
            await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pipe in pipes:
                pipe.cancel()
            far_writer.transport.abort()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                await self._open.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(chunk)
                await writer.drain()
