"""What one request has on the workers: its branches in flight, and what it is told of them.

Knows links and branch numbers. Must not know what a branch is for.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeAlias

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.link import WorkerLink
from multiverse_router.fleet.worker import Worker
from multiverse_router.placement.view import Progress


@dataclass(frozen=True, slots=True)
class Told:
    """A worker said something of a branch."""

    worker: Worker
    update: pb.Update


@dataclass(frozen=True, slots=True)
class Lost:
    """The stream to a worker broke; these branches were on it."""

    worker: Worker
    branches: list[int]
    reason: str
    stream: int  # which one it was


News: TypeAlias = Told | Lost


class Session:
    """A context manager: what is in flight when it is left is aborted, and leases are released.

    Its inbox is bounded by the token budget of the request.
    """

    def __init__(self, progress: Progress) -> None:
        self.progress = progress  # of the request, for whoever places branches beside it
        self._inbox: asyncio.Queue[News | None] = asyncio.Queue()
        self._workers: dict[int, Worker] = {}  # by branch in flight, as far as news were read
        self._by_link: dict[WorkerLink, Worker] = {}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        for branch in list(self._workers):
            self.abort(branch)
        while not self._inbox.empty():
            news = self._inbox.get_nowait()
            if isinstance(news, Told):
                news.worker.link.release(news.update.finish.lease)

    def start(self, worker: Worker, message: pb.Start, tokens: int = 0, loading: int = 0) -> None:
        """See `WorkerLink.start`."""
        self._workers[message.branch] = worker
        self._by_link[worker.link] = worker
        worker.breaker.begin()
        worker.link.start(message, self, tokens, loading)

    def abort(self, branch: int) -> None:
        """No news of it will come, but what is in the inbox already."""
        worker = self._workers.pop(branch, None)
        if worker is not None:
            worker.link.abort(branch)

    async def news(self, until: float | None = None) -> News | None:
        """The next thing that happened; None at loop time `until`, or when woken."""
        if until is None or not self._inbox.empty():
            news = await self._inbox.get()
        else:
            try:
                async with asyncio.timeout_at(until):
                    news = await self._inbox.get()
            except TimeoutError:
                return None
        if isinstance(news, Told) and news.update.HasField("finish"):
            self._workers.pop(news.update.branch, None)
        elif isinstance(news, Lost):
            for branch in news.branches:
                self._workers.pop(branch, None)
        return news

    def wake(self) -> None:
        """`news` returns None when it has told all that came before."""
        self._inbox.put_nowait(None)

    def updated(self, link: WorkerLink, update: pb.Update) -> None:
        self._inbox.put_nowait(Told(self._by_link[link], update))

    def lost(self, link: WorkerLink, branches: list[int], reason: str) -> None:
        self._inbox.put_nowait(Lost(self._by_link[link], branches, reason, link.stream))
