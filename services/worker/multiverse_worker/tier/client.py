"""The tier's client on its event loop: many names at once, each fetched once, nobody waits long.

What is asked for goes out in groups, some of them at a time, and each block is told as soon as
its group is there. A name that is under way already is not asked for again. Bounded by bytes
and names under way: what is beyond is answered BUSY, and nothing is asked for while too much
waits to be taken. Must not know engines.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from multiverse_worker.tier.backend import Backend, BackendError, BackendFull
from multiverse_worker.tier.block import BlockError, BlockForm
from multiverse_worker.tier.counts import Cause, TierCounts
from multiverse_worker.tier.health import Health
from multiverse_worker.tier.pieces import Name

GROUP = 8  # names in a round trip
GROUPS_AT_ONCE = 4
MOST_NAMES = 4096  # under way
_KNOWN = 1 << 16  # names remembered as kept

Answer: TypeAlias = bytes | Cause
Tell: TypeAlias = Callable[[Name, Answer], None]


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """`timeout_s` is what one fetch, or one put, may take."""

    timeout_s: float = 0.5
    in_flight_bytes: int = 64 << 20  # of blocks on their way out, and of those not yet taken


class TierClient:
    """All calls on one event loop; `tell` is called there, once for each name.

    The bytes that were told count as held until `taken` is called.
    """

    def __init__(
        self,
        backend: Backend,
        form: BlockForm,
        options: ClientOptions,
        counts: TierCounts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._form = form
        self._options = options
        self._counts = counts
        self._health = Health(clock)
        self._fetching: dict[Name, list[Tell]] = {}
        self._fetches = asyncio.Semaphore(GROUPS_AT_ONCE)
        self._puts = asyncio.Semaphore(GROUPS_AT_ONCE)
        self._out_bytes = 0
        self._held_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._known: dict[Name, None] = {}  # oldest first

    def knows(self, name: Name) -> bool:
        """Whether the block was put or fetched lately. From any thread."""
        return name in self._known

    async def fetch(self, names: Sequence[Name], tell: Tell) -> None:
        """Say what became of each name, within `timeout_s`."""
        new = []
        for name in names:
            if waiting := self._fetching.get(name):
                waiting.append(tell)
            elif len(self._fetching) >= MOST_NAMES:
                tell(name, Cause.BUSY)
            else:
                self._fetching[name] = [tell]
                new.append(name)
        try:
            if self._health.down:
                self._answer(new, Cause.DOWN)
                return
            async with asyncio.timeout(self._options.timeout_s), asyncio.TaskGroup() as tasks:
                for at in range(0, len(new), GROUP):
                    tasks.create_task(self._get(new[at : at + GROUP]))
        except TimeoutError:
            self._health.failed()
            self._answer(new, Cause.SLOW)
        finally:
            self._answer(new, Cause.BROKEN)  # whoever was not told yet: this was cancelled

    async def _get(self, names: Sequence[Name]) -> None:
        async with self._fetches:
            await self._room.wait()
            try:
                blocks = await self._backend.get(names)
            except BackendError:
                self._health.failed()
                self._answer(names, Cause.BROKEN)
                return
        self._health.answered()
        for name, block in zip(names, blocks, strict=True):
            self._answer([name], self._read(name, block))
            await asyncio.sleep(0)

    def _read(self, name: Name, block: bytes | None) -> Answer:
        if block is None:
            self._known.pop(name, None)
            return Cause.MISS
        try:
            raw = self._form.read(name, block)
        except BlockError:
            self._known.pop(name, None)
            return Cause.CORRUPT
        self._counts.fetched_bytes += len(block)
        self._remember(name)
        return raw

    def _answer(self, names: Sequence[Name], answer: Answer) -> None:
        for name in names:
            for tell in self._fetching.pop(name, ()):
                if not isinstance(answer, Cause):
                    self.taken(-len(answer))
                tell(name, answer)

    def taken(self, size: int) -> None:
        """So many bytes of those told are held no more."""
        self._held_bytes -= size
        if self._held_bytes > self._options.in_flight_bytes:
            self._room.clear()
        else:
            self._room.set()

    async def put(self, name: Name, raw: bytes) -> bool:
        """Whether the block is kept. A block that does not go out in time is dropped."""
        if len(raw) + self._out_bytes > self._options.in_flight_bytes:
            return self._dropped(Cause.BUSY)
        if self._health.down:
            return self._dropped(Cause.DOWN)
        self._out_bytes += len(raw)
        try:
            async with asyncio.timeout(self._options.timeout_s), self._puts:
                block = self._form.write(name, raw)
                await self._backend.put(name, block)
        except TimeoutError:
            self._health.failed()
            return self._dropped(Cause.SLOW)
        except BackendFull:
            return self._dropped(Cause.FULL)
        except BackendError:
            self._health.failed()
            return self._dropped(Cause.BROKEN)
        finally:
            self._out_bytes -= len(raw)
        self._health.answered()
        self._remember(name)
        self._counts.stored_blocks += 1
        self._counts.stored_bytes += len(block)
        return True

    def _dropped(self, cause: Cause) -> bool:
        self._counts.unstored[cause] += 1
        return False

    def _remember(self, name: Name) -> None:
        self._known.pop(name, None)
        self._known[name] = None
        if len(self._known) > _KNOWN:
            del self._known[next(iter(self._known))]

    async def close(self) -> None:
        await self._backend.close()
