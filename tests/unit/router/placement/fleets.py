"""A fleet that stands still, for tests of policies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from multiverse_router.placement.view import Progress, WorkerView


@dataclass
class StillFleet:
    """A `Fleet`."""

    workers: Sequence[WorkerView]
    on: Mapping[str, Collection[Progress]] = field(default_factory=dict)

    def worker(self, id: str) -> WorkerView | None:
        return next((worker for worker in self.workers if worker.id == id), None)

    def residents(self, id: str) -> Collection[Progress]:
        return self.on.get(id, ())


def fleet(*running: int) -> StillFleet:
    """Workers `w0`, `w1`, ... with so many branches."""
    return StillFleet([WorkerView(f"w{n}", running=count) for n, count in enumerate(running)])
