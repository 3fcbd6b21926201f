"""The server process: what a router does when it is asked to end.

New requests are refused with 503 at once, while the port still listens; what runs may end within
the grace time, and is told so by an error event after that. Then connections are closed.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from multiverse_router.answers import Answers
from multiverse_router.http_protocol import HttpProtocol
from multiverse_router.settings import RouterSettings

POLL_S = 0.05
LAST_WORDS_S = 5.0  # that readers have for the error event, and open connections for their end


class RouterServer(uvicorn.Server):
    """Serves one application, made by `create_app`."""

    def __init__(self, app: FastAPI, settings: RouterSettings) -> None:
        class Protocol(HttpProtocol):
            header_s = settings.header_timeout_s
            stalled_s = settings.stalled_reader_s

        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                http=Protocol,
                ws="none",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_keep_alive=settings.idle_connection_s,
                timeout_graceful_shutdown=int(LAST_WORDS_S),
            )
        )
        self._answers: Answers = app.state.answers
        self._grace_s = settings.shutdown_grace_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._answers.closing = True
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # modules and routes stay: to look through them takes some 70 ms each time

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._answers.closing = True
        await self._until_idle(self._grace_s)
        self._answers.end_all()
        await self._until_idle(LAST_WORDS_S)
        await super().shutdown(sockets)

    async def _until_idle(self, most_s: float) -> None:
        deadline = asyncio.get_running_loop().time() + most_s
        while self._answers.running and not self.force_exit:
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(POLL_S)
