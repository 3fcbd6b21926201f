"""The workers of one model, as a request sees them: where it may start, go on, and fork.

Asks the placement policy; knows no commands. What a decision costs does not rise with the size of
the fleet: nothing here looks at all workers, but when some came, went or changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from multiverse_router.fleet.session import Session
from multiverse_router.fleet.worker import Worker
from multiverse_router.model import ServedModel
from multiverse_router.placement.policy import Fork, Root
from multiverse_router.placement.prefix_index import Prefix, prefix_keys
from multiverse_router.placement.view import Progress, WorkerView
from multiverse_shared.errors import WorkerUnavailable
from multiverse_shared.tree import Context, count

if TYPE_CHECKING:
    from multiverse_router.fleet.fleet import Fleet


@dataclass(frozen=True, slots=True)
class Members:
    """Workers that serve one model at one moment."""

    workers: Sequence[Worker]
    by_address: Mapping[str, Worker]
    namespaces: Collection[str]  # of their caches

    @classmethod
    def of(cls, workers: Sequence[Worker]) -> Members:
        by_address = {worker.address: worker for worker in workers}
        return cls(workers, by_address, {worker.link.model.namespace for worker in workers})

    def without(self, left_out: Collection[Worker]) -> Members:
        if not left_out:
            return self
        return Members.of([worker for worker in self.workers if worker not in left_out])


class Pool:
    """Of the workers that serve `model` at any moment."""

    def __init__(self, fleet: Fleet, model: ServedModel) -> None:
        self.fleet = fleet
        self._name = model.name
        self._digest = model.digest

    @property
    def members(self) -> Members:
        """All that are connected, whether they take new work or not."""
        return self.fleet.members(self._name, self._digest)

    @property
    def available(self) -> list[Worker]:
        return [worker for worker in self.members.workers if worker.available]

    def holds(self, worker: Worker) -> bool:
        """Whether what began on a worker may go on there."""
        return worker.reachable and worker.serves(self._name, self._digest)

    def prefix(self, context: Context, salt: bytes = b"") -> Prefix:
        """A context, as one may be asked for it; `salt` is that of its tenant."""
        members = self.members
        namespaces = members.namespaces if len(members.workers) > 1 else ()
        keys = {namespace: prefix_keys(context, namespace, salt) for namespace in namespaces}
        return Prefix(count(context), keys)

    def root(
        self,
        prefix: Prefix,
        without: Collection[Worker] = (),
        progress: Progress | None = None,
    ) -> Worker:
        """Where a context starts, or, without the `progress` of its request, starts again.

        WorkerUnavailable when no worker but those of `without` takes it; CapacityExceeded when
        none can keep the target of the request.
        """
        members = self.members.without(without)
        if not any(worker.available for worker in members.workers):
            raise WorkerUnavailable(self.fleet.reason)
        root = Root(prefix.tokens, self._coverage(prefix, members), progress)
        now = _now()
        worker = members.by_address[self.fleet.policy.root(_Snapshot(members, now), root, now)]
        self._sent(worker, prefix)
        return worker

    def fork(
        self,
        home: Worker,
        paths: int,
        prefix: Prefix,
        progress: Progress,
        loaded: Collection[Worker] = (),
    ) -> list[Worker | None]:
        """For each of the sibling paths behind `prefix` at `home` its worker; None: it waits.

        Workers that `loaded` the whole prefix for siblings have it, whatever its keys say.
        WorkerUnavailable when `home` is gone and nobody else takes anything.
        """
        members, now, turns = self.members, _now(), self.fleet.turns
        if turns.is_first(home.address, progress, now):
            coverage = self._coverage(prefix, members)
            coverage |= {worker.address: prefix.tokens for worker in loaded}
            tokens, path_tokens = prefix.tokens, self.fleet.path_tokens
            fork = Fork(home.address, tokens, paths, progress, path_tokens, coverage)
            placed = self.fleet.policy.fork(_Snapshot(members, now), fork, now)
        else:  # one goes on in any case
            least = 0 if progress.running or not self.holds(home) else 1
            placed = (*[home.address] * least, *[None] * (paths - least))
        if None in placed:
            turns.wait(home.address, progress)
        else:
            turns.leave(home.address, progress)
        workers = [None if address is None else members.by_address[address] for address in placed]
        for worker in {worker for worker in workers if worker not in (None, home)}:
            self._sent(worker, prefix)
        return workers

    def leave(self, progress: Progress) -> None:
        """A request is over: it waits nowhere."""
        self.fleet.turns.end(progress)

    def _coverage(self, prefix: Prefix, members: Members) -> dict[str, int]:
        """By address: how many tokens of a context a worker has."""
        held: dict[str, int] = {}
        for keys in prefix.keys.values():
            held |= self.fleet.prefixes.coverage(keys)
        return {address: held[address] for address in held if address in members.by_address}

    def _sent(self, worker: Worker, prefix: Prefix) -> None:
        keys = prefix.keys.get(worker.link.model.namespace, ())
        self.fleet.prefixes.sent(worker.address, keys)


class _Snapshot:
    """A `Fleet` to the policies, for one decision."""

    def __init__(self, members: Members, now_s: float) -> None:
        self._members, self._now_s = members, now_s
        self.workers: Sequence[WorkerView] = _Views(members.workers, now_s)

    def worker(self, id: str) -> WorkerView | None:
        worker = self._members.by_address.get(id)
        return None if worker is None else worker.view(self._now_s)

    def residents(self, id: str) -> Collection[Progress]:
        found = self._members.by_address[id].link.subscribers
        return [session.progress for session in found if isinstance(session, Session)]


class _Views(Sequence[WorkerView]):
    """Made one by one: a policy looks at a few of many workers."""

    def __init__(self, workers: Sequence[Worker], now_s: float) -> None:
        self._workers, self._now_s = workers, now_s

    def __len__(self) -> int:
        return len(self._workers)

    @overload
    def __getitem__(self, index: int) -> WorkerView: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[WorkerView]: ...
    def __getitem__(self, index: int | slice) -> WorkerView | Sequence[WorkerView]:
        if isinstance(index, slice):
            return _Views(self._workers[index], self._now_s)
        return self._workers[index].view(self._now_s)

    def __iter__(self) -> Iterator[WorkerView]:
        return (worker.view(self._now_s) for worker in self._workers)


def _now() -> float:
    return asyncio.get_running_loop().time()
