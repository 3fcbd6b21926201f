"""The workers of one model, as a request sees them: where it may start, go on, and fork.

Asks the placement policy; knows no commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, overload

from multiverse_router.fleet.session import Session
from multiverse_router.fleet.worker import Worker
from multiverse_router.model import ServedModel
from multiverse_router.placement.policy import Fork, Root
from multiverse_router.placement.prefix_index import prefix_keys
from multiverse_router.placement.view import Progress, WorkerView
from multiverse_shared.errors import WorkerUnavailable
from multiverse_shared.tree import Context, count

if TYPE_CHECKING:
    from multiverse_router.fleet.fleet import Fleet


class Pool:
    """Of the workers that serve `model` at any moment. A `Fleet` to the policies."""

    def __init__(self, fleet: Fleet, model: ServedModel) -> None:
        self.fleet = fleet
        self._name = model.name
        self._digest = model.digest

    @property
    def members(self) -> list[Worker]:
        """All that are connected, whether they take new work or not."""
        return [worker for worker in self.fleet.workers if self._serves(worker)]

    @property
    def available(self) -> list[Worker]:
        return [worker for worker in self.members if worker.available]

    def holds(self, worker: Worker) -> bool:
        """Whether what began on a worker may go on there."""
        return worker.reachable and self._serves(worker)

    def root(
        self,
        context: Context,
        without: Collection[Worker] = (),
        progress: Progress | None = None,
    ) -> Worker:
        """Where a context starts, or, without the `progress` of its request, starts again.

        WorkerUnavailable when no worker but those of `without` takes it; CapacityExceeded when
        none can keep the target of the request.
        """
        members = self.members
        snapshot = _Snapshot(members, without)
        if not any(worker.available for worker in snapshot.members):
            raise WorkerUnavailable(self.fleet.reason)
        several = members if len(members) > 1 else ()
        names = {worker.link.model.namespace for worker in several}
        keys = {name: prefix_keys(context, name) for name in names}
        held: dict[str, int] = {}
        for known in keys.values():
            held |= self.fleet.prefixes.coverage(known)
        coverage = {w.address: held[w.address] for w in snapshot.members if w.address in held}
        root = Root(count(context), coverage, progress)
        worker = snapshot.of(self.fleet.policy.root(snapshot, root, _now()))
        self.fleet.prefixes.sent(worker.address, keys.get(worker.link.model.namespace, ()))
        return worker

    def fork(
        self, home: Worker, paths: int, tokens: int, progress: Progress
    ) -> list[Worker | None]:
        """For each of the sibling paths behind a context at `home` its worker; None: it waits.

        WorkerUnavailable when `home` is gone and nobody else takes anything.
        """
        snapshot, now, turns = _Snapshot(self.members), _now(), self.fleet.turns
        fork = Fork(home.address, tokens, paths, progress, self.fleet.path_tokens)
        if turns.is_first(home.address, progress, now):
            placed = self.fleet.policy.fork(snapshot, fork, now)
        else:  # one goes on in any case
            least = 0 if progress.running or not self.holds(home) else 1
            placed = (*[home.address] * least, *[None] * (paths - least))
        if None in placed:
            turns.wait(home.address, progress)
        else:
            turns.leave(home.address, progress)
        return [None if address is None else snapshot.of(address) for address in placed]

    def leave(self, progress: Progress) -> None:
        """A request is over: it waits nowhere."""
        for worker in self.fleet.workers:
            self.fleet.turns.leave(worker.address, progress)

    def _serves(self, worker: Worker) -> bool:
        link = worker.link
        return (
            link.connected and link.model.digest == self._digest and link.model.name == self._name
        )


class _Snapshot:
    """What a policy sees during one decision."""

    def __init__(self, members: list[Worker], without: Collection[Worker] = ()) -> None:
        self.members = [worker for worker in members if worker not in without]
        self._by_address = {worker.address: worker for worker in self.members}

    def of(self, address: str) -> Worker:
        return self._by_address[address]

    @property
    def workers(self) -> Sequence[WorkerView]:
        return _Views(self.members)

    def worker(self, id: str) -> WorkerView | None:
        worker = self._by_address.get(id)
        return None if worker is None else worker.view

    def residents(self, id: str) -> Collection[Progress]:
        found = self._by_address[id].link.subscribers
        return [session.progress for session in found if isinstance(session, Session)]


class _Views(Sequence[WorkerView]):
    """Made one by one: a policy looks at a few of many workers."""

    def __init__(self, members: list[Worker]) -> None:
        self._members = members

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, index: int) -> WorkerView: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[WorkerView]: ...
    def __getitem__(self, index: int | slice) -> WorkerView | Sequence[WorkerView]:
        if isinstance(index, slice):
            return _Views(self._members[index])
        return self._members[index].view

    def __iter__(self) -> Iterator[WorkerView]:
        return (worker.view for worker in self._members)


def _now() -> float:
    return asyncio.get_running_loop().time()
