"""Watches one worker's reports, and keeps the prefix index to what they tell of its cache.

Changes bear numbers. One that was missed is asked for again; what a worker that was started again
had is forgotten. Must not know placement.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_router.placement.prefix_index import PrefixIndex

PAUSE_S = 0.1  # before it watches anew: a worker may miss changes again at once


class CacheWatch:
    """Of `worker`, by its name in the index."""

    def __init__(self, index: PrefixIndex, worker: str) -> None:
        self._index = index
        self._worker = worker
        self._heard = pb.CacheHeard()

    def connected(self) -> None:
        """There is a new connection. Who never tells may have been started again meanwhile."""
        if not self._heard.cache:
            self._index.forget(self._worker)

    async def reports(self, stub: EngineServiceStub) -> AsyncIterator[pb.WatchLoadResponse]:
        """The worker's reports, until its stream ends. Raises what it raises."""
        while True:
            call = stub.WatchLoad(pb.WatchLoadRequest(cache=self._heard))
            try:
                async for report in call:
                    yield report
                    if report.HasField("cache") and not self.told(report.cache):
                        break
                else:
                    return
            finally:
                call.cancel()
            await asyncio.sleep(PAUSE_S)

    def told(self, changes: pb.CacheChanges) -> bool:
        """False when changes are missing: watch anew, from what was heard."""
        heard = self._heard
        if changes.anew:
            self._index.forget(self._worker)
        elif (changes.cache, changes.after) != (heard.cache, heard.sequence):
            return False
        heard.cache, heard.sequence = changes.cache, changes.sequence
        self._index.held(self._worker, changes.held)
        self._index.gone(self._worker, changes.gone)
        return True
