"""All workers of a router: found by a discovery, linked to, watched; pools of them by model.

Must not know requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from multiverse_router.fleet.discovery.choice import discovery
from multiverse_router.fleet.discovery.source import Discovery
from multiverse_router.fleet.link import WorkerLink
from multiverse_router.fleet.models import Models
from multiverse_router.fleet.pool import Members, Pool
from multiverse_router.fleet.session import Session
from multiverse_router.fleet.worker import Account, Worker
from multiverse_router.model import ServedModel
from multiverse_router.placement.auto import AutoOptions
from multiverse_router.placement.choice import policy
from multiverse_router.placement.prefix_index import PrefixIndex
from multiverse_router.placement.waiting import Turns
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import InvalidRequest, NotFound, WorkerUnavailable

TICK_S = 0.5
FAILED_S = 2.0
FIRST_PATH_TOKENS = 128.0  # that a path is expected to have before any has ended
_WEIGHT = 0.05  # of the last path in the mean

log = logging.getLogger(__name__)


class Fleet:
    """Run `run` in a task for as long as the router lives."""

    def __init__(self, settings: RouterSettings, source: Discovery | None = None) -> None:
        """`source` takes the place of what the settings say."""
        self._settings = settings
        self._discovery = source or discovery(settings)
        self._models = Models(settings, self._digest_of)
        self.policy = policy(
            settings.placement, settings.siblings, AutoOptions(settings.prefill_tokens_per_s)
        )
        self.prefixes = PrefixIndex(settings.prefix_index)
        self.turns = Turns()
        self.token_ms = settings.token_ms
        self._workers: dict[str, Worker] = {}  # by address
        self._members: dict[tuple[str, str], Members] = {}  # by name and digest, until a change
        self._links: dict[str, asyncio.Task[None]] = {}
        self._waiting: set[Session] = set()
        self.homeless = Account()  # answers that have no worker at the moment
        self.reroute_s = settings.reroute_s
        self.path_tokens = FIRST_PATH_TOKENS

    # -- who is there --------------------------------------------------------------------------

    @property
    def workers(self) -> list[Worker]:
        return list(self._workers.values())

    @property
    def names(self) -> list[str]:
        """The models that are served now, or were while their workers are expected back."""
        return sorted({w.link.known_model for w in self.workers if w.link.known_model})

    @property
    def requests(self) -> int:
        """Answers in flight, by the accounts of workers."""
        return self.homeless.requests + sum(worker.requests for worker in self.workers)

    @property
    def ready(self) -> bool:
        """Whether new work can be taken at all."""
        return any(worker.available for worker in self.workers)

    @property
    def refused(self) -> bool:
        """Workers are there, but none whose model can be served."""
        workers = self.workers
        return bool(workers) and all(worker.link.refused for worker in workers)

    @property
    def reason(self) -> str:
        """Why there is no worker that takes work."""
        reasons = [_reason(worker) for worker in self.workers if not worker.available]
        return "; ".join(reasons[:3]) or "no worker is known yet"

    @property
    def models(self) -> list[ServedModel]:
        """One of each name, as it is served now. WorkerUnavailable when there is none."""
        names = sorted({w.link.model.name for w in self.workers if w.link.connected})
        if not names:
            raise WorkerUnavailable(self.reason)
        return [self._served(name) for name in names]

    def model(self, name: str | None = None) -> ServedModel:
        """The model called so; without a name the only one.

        NotFound, InvalidRequest without a name where there are several, WorkerUnavailable.
        """
        names = self.names
        if name is None and len(names) > 1:
            raise InvalidRequest(f"name a model: one of {', '.join(names)}", field="model")
        if name is not None and names and name not in names:
            served = " and ".join(repr(known) for known in names)
            verb = "is" if len(names) == 1 else "are"
            raise NotFound(f"model {name!r} is not served here; {served} {verb}", field="model")
        if not names:
            raise WorkerUnavailable(self.reason)
        return self._served(name or names[0])

    def _served(self, name: str) -> ServedModel:
        """What fits every worker of the model: so an answer may move to any of them."""
        served = [
            w.link.model for w in self.workers if w.link.connected and w.link.known_model == name
        ]
        if not served:
            raise WorkerUnavailable(self.reason)
        model = served[0]
        length = min(one.context_length for one in served)
        cells = min(one.kv_cells for one in served)
        if (length, cells) == (model.context_length, model.kv_cells):
            return model
        return replace(model, context_length=length, kv_cells=cells)

    def members(self, name: str, digest: str) -> Members:
        """Who is connected and serves a model, whether it takes new work or not."""
        members = self._members.get((name, digest))
        if members is None:
            serving = [worker for worker in self.workers if worker.serves(name, digest)]
            members = self._members[name, digest] = Members.of(serving)
        return members

    def pool(self, model: ServedModel) -> Pool:
        """The workers that serve exactly this model, now and later."""
        return Pool(self, model)

    def _digest_of(self, name: str) -> str | None:
        connected = (w.link.model for w in self.workers if w.link.connected)
        return next((model.digest for model in connected if model.name == name), None)

    # -- in time -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow the discovery and keep the links, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch())
                await self._discover(tasks)
                await asyncio.Event().wait()
        finally:
            self._links.clear()

    async def _discover(self, tasks: asyncio.TaskGroup) -> None:
        """Until nothing can change any more. No source may end the fleet, whatever it does."""
        while True:
            try:
                async for addresses in self._discovery.watch():
                    self.reconcile(addresses, tasks)
            except Exception:
                log.exception("the discovery of workers failed; it is asked again")
                await asyncio.sleep(FAILED_S)
            else:
                return

    def reconcile(self, addresses: Iterable[str], tasks: asyncio.TaskGroup) -> None:
        """What is there now is the fleet; who is not there any more may end what it has."""
        wanted = frozenset(addresses)
        for address in wanted - self._workers.keys():
            log.info("worker %s joins", address)
            link = WorkerLink(address, self._settings, self._models, self.changed, self.prefixes)
            worker = self.add(link)
            self._links[address] = tasks.create_task(self._follow(worker))
        for address, worker in self._workers.items():
            if worker.leaving != (address not in wanted):
                worker.leaving = address not in wanted
                log.info("worker %s %s", address, "leaves" if worker.leaving else "is back")
        self._reap()
        self.changed()

    def add(self, link: WorkerLink) -> Worker:
        """A worker over `link`, which somebody runs."""
        worker = self._workers[link.address] = Worker(link)
        self._members.clear()
        return worker

    async def _follow(self, worker: Worker) -> None:
        """No worker may end the fleet, whatever it does."""
        while True:
            try:
                await worker.link.run()
            except Exception:
                log.exception("the link to worker %s failed", worker.address)
            await asyncio.sleep(FAILED_S)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._reap()
            for worker in self.workers:
                self._check_silence(worker)

    def _reap(self) -> None:
        """Who has left and has nothing any more, or can't be reached, is forgotten."""
        for worker in self.workers:
            if worker.leaving and (worker.idle or not worker.reachable):
                del self._workers[worker.address]
                self._members.clear()
                task = self._links.pop(worker.address, None)
                if task is not None:
                    task.cancel()
                self.prefixes.forget(worker.address)
                log.info("worker %s has left", worker.address)

    def _check_silence(self, worker: Worker) -> None:
        """A worker that computes nothing while it has work is given up, if there are others."""
        link = worker.link
        if not link.connected or not link.branches:
            return
        silent = asyncio.get_running_loop().time() - link.progress_at
        if silent < self._settings.silence_s:
            return
        others = self.pool(link.model).available
        if any(other is not worker for other in others):
            worker.breaker.failed(at_once=True)
            link.give_up(f"nothing was computed for {silent:.0f} s")

    def path_ended(self, tokens: int) -> None:
        """A path of some answer has ended with so many tokens of its own."""
        self.path_tokens += _WEIGHT * (tokens - self.path_tokens)

    # -- who waits -----------------------------------------------------------------------------

    def changed(self) -> None:
        """A worker came, went or changed: whoever waits for one looks again."""
        self._members.clear()
        for session in self._waiting:
            session.wake()

    @contextmanager
    def waking(self, session: Session) -> Iterator[None]:
        """Inside, `session` is woken whenever workers change."""
        self._waiting.add(session)
        try:
            yield
        finally:
            self._waiting.discard(session)


def _reason(worker: Worker) -> str:
    if not worker.link.connected:
        return worker.link.reason
    if worker.leaving or worker.link.draining:
        return f"worker {worker.address}: it is about to leave"
    return f"worker {worker.address}: it failed again and again; it is tried a little later"
