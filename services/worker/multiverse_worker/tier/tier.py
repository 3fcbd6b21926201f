"""The tier as an engine sees it: calls that never wait, answers that come by themselves.

The client runs on an event loop of its own thread, so checksums, compression and the network
cost the engine's steps nothing. Knows threads. Must not know engines.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from multiverse_worker.tier.backend import Backend
from multiverse_worker.tier.block import BlockForm
from multiverse_worker.tier.client import Answer, ClientOptions, TierClient
from multiverse_worker.tier.counts import Cause, TierCounts
from multiverse_worker.tier.pieces import Name


@dataclass(slots=True)
class Put:
    """A block on its way out."""

    size: int
    done: bool = False  # kept, or given up


@dataclass(slots=True)
class Fetch:
    """Blocks on their way in. `drop` it if it is not taken to its end."""

    _tier: Tier
    _answers: dict[Name, Answer] = field(default_factory=dict)
    _dropped: bool = False

    def arrived(self, name: Name) -> bool:
        """Whether it is known what became of the block."""
        return name in self._answers

    def take(self, name: Name) -> Answer:
        """The KV bytes, or why there are none. Once for each name that has arrived."""
        answer = self._answers.pop(name)
        self._tier._taken(answer)
        return answer

    def drop(self) -> None:
        """Nobody wants the rest."""
        self._dropped = True
        while self._answers:
            self._tier._taken(self._answers.popitem()[1])

    def _tell(self, name: Name, answer: Answer) -> None:
        self._answers[name] = answer
        if self._dropped:
            self.drop()
        self._tier._tell()


class Tier:
    """Called by one thread. `open_backend` is called on the tier's own loop.

    `on_news` is called from the tier's thread when something has arrived or gone out.
    """

    def __init__(
        self, open_backend: Callable[[], Backend], form: BlockForm, options: ClientOptions
    ) -> None:
        self.counts = TierCounts()
        self.on_news: Callable[[], None] = lambda: None
        self._most_out = options.in_flight_bytes
        self._puts: list[Put] = []  # that were not done when last seen
        self._news = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tier", daemon=True)
        self._thread.start()

        async def opened() -> TierClient:
            return TierClient(open_backend(), form, options, self.counts)

        try:
            self._client = asyncio.run_coroutine_threadsafe(opened(), self._loop).result()
        except BaseException:
            self._end()
            raise

    def fetch(self, names: Sequence[Name]) -> Fetch:
        """Ask for blocks; each arrives, or is given up, within the client's timeout."""
        fetch = Fetch(self)
        self._run(self._client.fetch(names, fetch._tell))
        return fetch

    def put(self, name: Name, raw: bytes) -> Put:
        """Send a block. It may be dropped: the counts say why."""
        put = Put(len(raw))
        self._puts = [*self._under_way, put]

        async def send() -> None:
            try:
                await self._client.put(name, raw)
            finally:
                put.done = True
                self._tell()

        self._run(send())
        return put

    def has_room(self, size: int) -> bool:
        """Whether a block may go out now; one that is larger than all room goes alone."""
        out = self._under_way
        return not out or sum(put.size for put in out) + size <= self._most_out

    @property
    def _under_way(self) -> list[Put]:
        return [put for put in self._puts if not put.done]

    def knows(self, name: Name) -> bool:
        """Whether the block was there lately."""
        return self._client.knows(name)

    def wait(self, seconds: float) -> None:
        """Until something has arrived or gone out since the last call."""
        self._news.wait(seconds)
        self._news.clear()

    def close(self) -> None:
        """Give up what is under way."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._client.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        def begin() -> None:
            task = self._loop.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(begin)

    def _tell(self) -> None:
        self._news.set()
        self.on_news()

    def _taken(self, answer: Answer) -> None:
        if not isinstance(answer, Cause):
            self._loop.call_soon_threadsafe(self._client.taken, len(answer))
