"""What a router stream has not been sent yet, merged per branch.

Bounded by the token budgets of the stream's branches: decoding never waits for a reader, and
a slow reader gets fewer, larger frames.
"""

from __future__ import annotations

import asyncio

from multiverse_worker.contract import Update


class Outbox:
    """Filled and emptied on one event loop."""

    def __init__(self) -> None:
        self._updates: dict[int, Update] = {}
        self._filled = asyncio.Event()

    def put(self, update: Update) -> None:
        """Append to what is pending for the branch."""
        number = update.branch.number
        pending = self._updates.get(number)
        if pending:
            update = Update(
                update.branch,
                pending.ids + update.ids,
                pending.logprobs + update.logprobs,
                update.finish or pending.finish,
                pending.top_logprobs + update.top_logprobs,
            )
        self._updates[number] = update
        self._filled.set()

    async def take(self) -> list[Update]:
        """Everything pending, one update per branch; waits until there is something."""
        await self._filled.wait()
        self._filled.clear()
        updates, self._updates = list(self._updates.values()), {}
        return updates
