"""What goes wrong, and when."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from random import Random

from tests.reliability.chaos.parts import Part, Parts

OUT_S = 1.0  # so long a killed part is away
SLOW_S = 0.05


class Faults:
    """Does faults at random, by `rng`, and counts them by kind."""

    def __init__(self, parts: Parts, rng: Random) -> None:
        self._parts = parts
        self._rng = rng
        self.kinds: Counter[str] = Counter()
        self._ending: set[str] = set()  # names of parts that were told to end

    async def run(self, worker_s: float, router_s: float, redis_s: float, link_s: float) -> None:
        """A fault of each kind every so many seconds, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._every(worker_s, self.worker))
            tasks.create_task(self._every(router_s, self.router))
            tasks.create_task(self._every(redis_s, self.redis))
            tasks.create_task(self._every(link_s, self.link))

    async def _every(self, seconds: float, fault: object) -> None:
        while True:
            await asyncio.sleep(seconds)
            await fault()  # type: ignore[operator]

    async def worker(self) -> None:
        await self._end("worker", self._rng.choice(self._parts.workers))

    async def router(self) -> None:
        await self._end("router", self._rng.choice(self._parts.routers))

    async def _end(self, kind: str, part: Part) -> None:
        """Killed or asked to end; started again when it is gone."""
        number = self._rng.choice((signal.SIGKILL, signal.SIGTERM))
        self.kinds[f"{kind}_{number.name.lower()}"] += 1
        self._ending.add(part.name)
        part.signal(number)
        await part.gone()
        await asyncio.sleep(OUT_S)
        part.start()
        self._ending.discard(part.name)

    async def heal(self) -> None:
        """Everything is there again, after `run` was cancelled in the midst of something."""
        parts = self._parts
        for part in (*parts.workers, *parts.routers):
            if part.name in self._ending:
                await part.gone()
                part.start()
        for proxy in parts.proxies:
            proxy.delay_s = 0.0
            proxy.go()
        if parts.redis.process.poll() is not None:
            await asyncio.to_thread(parts.restart_redis)

    async def redis(self) -> None:
        self.kinds["redis_sigkill"] += 1
        self._parts.redis.kill()
        await asyncio.sleep(OUT_S)
        await asyncio.to_thread(self._parts.restart_redis)

    async def link(self) -> None:
        proxy = self._rng.choice(self._parts.proxies)
        kind = self._rng.choice(("cut", "slow", "stopped"))
        self.kinds[f"link_{kind}"] += 1
        if kind == "cut":
            proxy.cut()
            return
        if kind == "slow":
            proxy.delay_s = SLOW_S
        else:
            proxy.stop()
        await asyncio.sleep(2.0)
        proxy.delay_s = 0.0
        proxy.go()
