"""What finished branches left on workers: keys to go on from, and the leases that pin them.

A stream that broke took its leases along, so what is held is always asked for, never assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.worker import Worker
from multiverse_router.placement.joins import joined_at
from multiverse_shared.effects import StartBranch
from multiverse_shared.layout import next_position
from multiverse_shared.tree import Context


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished branch: where its KV is, and the context that its key stands for."""

    worker: Worker
    stream: int  # of the worker's link, when it ended
    number: int
    lease: str
    key: bytes
    tokens: int  # of its context and of what it decoded
    context: Context | None = None  # None when nothing goes on from it

    @property
    def held(self) -> bool:
        return self.worker.link.connected and self.worker.link.stream == self.stream


class Held:
    """Of one answer, by the names of its branches."""

    def __init__(self) -> None:
        self._ended: dict[str, Ended] = {}
        self._shipped: set[str] = set()  # paths at home whose siblings may move

    def add(self, branch: str, worker: Worker, number: int, finish: pb.Finish, tokens: int) -> None:
        """A branch ended whose context, with what it decoded, has so many tokens."""
        stream = worker.link.stream
        self._ended[branch] = Ended(worker, stream, number, finish.lease, finish.key, tokens)

    def goes_on(self, branch: str, context: Context) -> None:
        """Others will go on from `branch`, whose key stands for `context`."""
        ended = self._ended.get(branch)
        if ended is not None:
            self._ended[branch] = replace(ended, context=context)

    def home(self, start: StartBranch) -> Worker | None:
        """The worker on which `start` finds most of what it goes on from (`joined_at`)."""
        before = self._before(start)
        home = before.worker if before is not None else None
        held = Counter[Worker | None]()  # tokens of paths
        shipped = True
        for name in start.joins[1:]:
            path = self._ended.get(name)
            if path is not None and path.held:
                held[path.worker] += path.tokens - (before.tokens if before is not None else 0)
                shipped &= path.worker is not home or name in self._shipped
        return joined_at(home, held, shipped=shipped)

    def base(self, start: StartBranch, worker: Worker) -> Ended | None:
        """The finished branch whose context begins that of `start`, if `worker` has it."""
        ended = self._before(start)
        if ended is None or ended.context is None or ended.worker is not worker:
            return None
        return ended if start.context[: len(ended.context)] == ended.context else None

    def block(self, start: StartBranch, worker: Worker) -> int | None:
        """The number on `worker` of the branch whose block `start` is a path of."""
        ended = self._ended.get(start.block) if start.block else None
        if ended is None or not ended.held or ended.worker is not worker:
            return None
        return ended.number

    def ships(self, paths: Iterable[str]) -> None:
        """These begin at home, and their siblings may yet move and take the join with them."""
        self._shipped.update(paths)

    def ships_from(self, start: StartBranch, worker: Worker) -> int | None:
        """Position from which `start` sends its KV to the tier, when it may be joined elsewhere."""
        home = self._ended.get(start.block) if start.block else None
        if home is None or home.context is None:
            return None
        if home.worker is worker and start.branch not in self._shipped:
            return None
        return next_position(home.context)

    def consumed(self, start: StartBranch, worker: Worker) -> list[str]:
        """Leases that end when `start` holds its context; those of other workers end now."""
        parts = [self._ended[name] for name in start.joins if name in self._ended]
        _release(ended for ended in parts if ended.worker is not worker)
        return [ended.lease for ended in parts if ended.worker is worker and ended.held]

    def release(self) -> None:
        """The answer is over."""
        _release(self._ended.values())

    def _before(self, start: StartBranch) -> Ended | None:
        name = start.joins[0] if start.joins else start.block
        ended = self._ended.get(name) if name else None
        return ended if ended is not None and ended.held else None


def _release(parts: Iterable[Ended]) -> None:
    for ended in parts:
        if ended.held:
            ended.worker.link.release(ended.lease)
