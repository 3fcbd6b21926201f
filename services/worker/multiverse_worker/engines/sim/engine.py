"""The simulator: the whole engine contract without a model.

A step does to its branches what an engine's step does and then sleeps for as long as the timing
model says. Policy, in the order of a step: admit waiting branches, oldest request first, as many
as there are slots; every decoding branch gets its token, what is left of the batch goes to
loading, oldest first; if the pool is full, evict what is idle, then leave the youngest out; if
not even the oldest fits, take from the youngest request: its leases, then its branches.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

from multiverse_shared.errors import CapacityExceeded, InvalidRequest, MultiverseError, NotFound
from multiverse_shared.tree import Context, normalise
from multiverse_worker.cache_journal import CacheChange
from multiverse_worker.checks import check_start
from multiverse_worker.contract import (
    BranchId,
    Capability,
    Engine,
    EngineInfo,
    Finish,
    FinishReason,
    Load,
    RequestId,
    Start,
    TopLogprobs,
    Update,
)
from multiverse_worker.engines.sim.branch import Branch
from multiverse_worker.engines.sim.faults import Faults
from multiverse_worker.engines.sim.pool import Account, KvPool, Segment
from multiverse_worker.engines.sim.scripts import ScriptSource
from multiverse_worker.engines.sim.timing import StepTimes
from multiverse_worker.leases import Lease, LeaseBook
from multiverse_worker.step_meter import StepMeter

Batch = list[tuple[Branch, int]]  # branch, number of tokens of its feed
VERSION = "1"
LEASE_CHECK_S = 0.05
STALL_S = 0.02  # how often a stalled engine looks up


@dataclass(frozen=True, slots=True)
class SimOptions:
    """Sizes, and how fast time passes."""

    kv_cells: int = 16384
    sequences: int = 128  # branches that run at once; more of them wait
    batch_tokens: int = 512
    context_length: int = 32768
    speed: float = 0.0  # 1: as fast as the machine; 2: twice as fast; 0: without waiting


class SimEngine(Engine):
    """See `Engine`. `clock` and `sleep` are those of the caller: real or simulated seconds."""

    def __init__(
        self,
        options: SimOptions,
        source: ScriptSource,
        times: StepTimes,
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        faults: Faults | None = None,
    ) -> None:
        self.info = EngineInfo(
            engine="sim",
            version=VERSION,
            namespace=f"{namespace}/sim-{VERSION}",
            context_length=min(options.context_length, options.kv_cells),
            kv_cells=options.kv_cells,
            vocab_size=source.vocab_size,
            capabilities=frozenset({Capability.FREE_POSITIONS}),
        )
        self.cache = KvPool(options.kv_cells, self.info.namespace)
        self.faults = faults or Faults("", clock=clock)
        self.computed = 0  # tokens
        self._options = options
        self._source = source
        self._times = times
        self._clock = clock
        self._sleep = sleep
        self._leases: LeaseBook[Segment] = LeaseBook(clock)
        self._leases_checked = clock()
        self._branches: dict[BranchId, Branch] = {}
        self._running: list[Branch] = []  # oldest request first
        self._waiting: list[Branch] = []  # likewise
        self._ages: dict[RequestId, int] = {}
        self._arrivals = 0
        self._updates: list[Update] = []
        self._sizes = StepMeter()

    # -- contract ----------------------------------------------------------------------------

    def start(self, start: Start) -> None:
        if running := self._branches.get(start.branch):
            error = InvalidRequest("the branch runs already; use a new number", field="branch")
            self._retire(running, Finish(FinishReason.FAILED, error=error))
            return
        try:
            base = self._base(start)
            context = normalise((*base, *start.context))
            check_start(start, context, self.info)
        except MultiverseError as error:
            finish = Finish(FinishReason.FAILED, error=error)
            self._updates.append(Update(start.branch, finish=finish))
            return
        self._arrivals += 1
        age = self._ages.setdefault(start.owner, self._arrivals)
        script = self._source.script(start, context)
        branch = Branch(start, context, (age, self._arrivals), script)
        self._branches[start.branch] = branch
        insort(self._waiting, branch, key=_order)

    def abort(self, branch: BranchId) -> None:
        if branch in self._branches:
            self._retire(self._branches[branch], Finish(FinishReason.ABORTED))

    def release(self, lease: str, stream: int) -> None:
        ended = self._leases.end(lease, stream)
        if ended:
            self.cache.unpin(ended.held)

    def lose_stream(self, stream: int) -> None:
        for branch in [b for b in self._branches if b.stream == stream]:
            self.abort(branch)
        self._leases.lose_stream(stream)

    def step(self) -> list[Update]:
        begun = self._clock()
        self.tick()
        if self.faults.stalled:
            self._sleep(STALL_S)
            return []
        self._admit()
        batch = self._compose()
        duration = self._duration(batch)
        only_decodes = bool(batch) and all(branch.decoding for branch, _ in batch)
        sampled = self._compute(batch)
        if duration:
            self._sleep(max(0.0, begun + duration - self._clock()))
        if only_decodes:
            self._sizes.saw(len(batch), self._clock() - begun)
        self.faults.count(sampled)
        updates, self._updates = self._updates, []
        return updates

    def tick(self) -> None:
        self.faults.poll()
        now = self._clock()
        if abs(now - self._leases_checked) < LEASE_CHECK_S:
            return
        self._leases_checked = now
        live = {branch.start.owner for branch in self._branches.values()}
        for lease in self._leases.expired(live):
            self.cache.unpin(lease.held)
        if len(self._ages) > 64 + 2 * (len(live) + len(self._leases)):
            live.update(lease.request for lease in self._leases)
            self._ages = {request: age for request, age in self._ages.items() if request in live}

    @property
    def idle(self) -> bool:
        return not self._branches and not self._updates

    def load(self) -> Load:
        return self.faults.reported(
            Load(
                running=len(self._running),
                waiting=len(self._waiting),
                leases=len(self._leases),
                kv_cells_free=self.cache.free,
                kv_cells=self.cache.cells,
                step_ms=self._sizes.step_ms,
            )
        )

    def cache_changes(self) -> list[CacheChange]:
        return self.cache.changes.take()

    def drop_cached(self) -> None:
        for lease in self._leases:
            self.release(lease.id, lease.request.stream)
        self.cache.drop_idle()

    def close(self) -> None:
        """There is nothing to free."""

    def account(self) -> Account:
        """Who holds the cells of the pool."""
        pins = [pin for b in self._running if b.holding for pin in b.holding.pins]
        return self.cache.account(pins, [lease.held for lease in self._leases])

    # -- admission ---------------------------------------------------------------------------

    def _base(self, start: Start) -> Context:
        if not start.base_key:
            return ()
        lease = self._leases.by_key(start.base_key, start.branch.stream)
        if lease is None:
            raise NotFound("no lease on this base; send the context in full", field="base_key")
        return lease.context

    def _admit(self) -> None:
        room = self._options.sequences - len(self._running)
        if not room or not self._waiting:
            return
        for branch in self._waiting[:room]:
            branch.admit(self.cache)
            insort(self._running, branch, key=_order)
        del self._waiting[:room]

    # -- batches -------------------------------------------------------------------------------

    def _compose(self) -> Batch:
        """Feeds for one batch that fits the pool; empty when there is nothing to compute."""
        ready = [b for b in tuple(self._running) if b.feed is not None or self._prepare(b)]
        batch: Batch = []
        room = self._options.batch_tokens
        for decoding in (True, False):
            for branch in ready:
                if branch.decoding is decoding and room:
                    assert branch.feed is not None
                    size = min(len(branch.feed.ids) - branch.feed.done, room)
                    batch.append((branch, size))
                    room -= size
        need = self._options.batch_tokens - room
        return batch if self.cache.make_room(need) else self._squeezed(batch, ready[0])

    def _squeezed(self, batch: Batch, oldest: Branch) -> Batch:
        """The part of a batch that fits a full pool, taking from the youngest what it must."""
        batch.sort(key=lambda entry: entry[0].order)
        while batch and not self.cache.make_room(sum(size for _, size in batch)):
            if len(batch) > 1:
                batch.pop()
            elif batch[0] != (oldest, 1):  # a token at a time; those that decode may be younger
                batch = [(oldest, 1)]
            elif not self._relieve(oldest):
                batch = []
                if len(self._running) == 1:
                    message = "the KV pool is full and nothing can be taken from others"
                    finish = Finish(FinishReason.FAILED, error=CapacityExceeded(message))
                    self._retire(oldest, finish)
        return batch

    def _prepare(self, branch: Branch) -> bool:
        """Give the branch something to compute; false when it has ended."""
        self._advance(branch)
        if branch.feed is None:
            self._finish(branch)
        return branch.feed is not None

    def _advance(self, branch: Branch) -> None:
        loading = not branch.decoding
        branch.advance()
        if loading and branch.decoding:  # what it was joined from is not needed any more
            for lease in branch.start.consumes:
                self.release(lease, branch.start.branch.stream)

    def _duration(self, batch: Batch) -> float:
        """Seconds that computing a batch takes."""
        if not self._options.speed or not batch:
            return 0.0
        decoding = [branch for branch, _ in batch if branch.decoding]
        prefill = sum(size for _, size in batch) - len(decoding)
        context = 0
        if self._times.context_ms_per_1000:
            context = sum(branch.context_tokens for branch in decoding)
        milliseconds = self._times.step_ms(len(decoding), prefill, context)
        return milliseconds / 1000 / self._options.speed

    def _compute(self, batch: Batch) -> int:
        """Carry a batch out; the number of tokens drawn."""
        sampled = 0
        updates = self._updates
        for branch, size in batch:
            feed = branch.feed
            assert feed is not None
            feed.growth.ids.extend(feed.ids[feed.done : feed.done + size])
            self.cache.free -= size
            self.computed += size
            feed.done += size
            if feed.done < len(feed.ids):
                continue
            branch.feed = None
            if not feed.draws:
                continue
            if not branch.decoding:
                self._advance(branch)
            token = branch.draw()
            sampled += 1
            updates.append(_told(branch.start, token))
        for branch, _ in batch:
            if branch.feed is None:
                self._prepare(branch)
        return sampled

    # -- ends --------------------------------------------------------------------------------

    def _finish(self, branch: Branch) -> None:
        """Report the end; the branch's pin becomes a lease."""
        start, ending = branch.start, branch.ending
        assert ending is not None
        assert branch.holding is not None
        reused, end = branch.holding.reused, branch.settle()
        context, key = branch.final_context, end.chain.end
        lease = self._leases.grant(end, start, key, context)
        finish = Finish(
            reason=ending.reason,
            stop=ending.stop,
            appended=ending.appended,
            lease=lease.id,
            key=key,
            reused_tokens=reused,
            context_tokens=branch.context_tokens,
        )
        self._forget(branch)
        self._updates.append(Update(start.branch, finish=finish))

    def _retire(self, branch: Branch, finish: Finish) -> None:
        """End a branch without a lease."""
        branch.unload()
        self._forget(branch)
        self._updates.append(Update(branch.start.branch, finish=finish))

    def _forget(self, branch: Branch) -> None:
        del self._branches[branch.start.branch]
        queue = self._running if branch in self._running else self._waiting
        queue.remove(branch)

    # -- pressure ----------------------------------------------------------------------------

    def _relieve(self, oldest: Branch) -> bool:
        """Take memory from those behind `oldest`; false when there is nothing to take.

        Last of all, when nothing else runs, leases of its own request, then all others.
        """
        age = oldest.order[0]
        younger = [lease for lease in self._leases if self._ages[lease.request] > age]
        if younger:
            youngest = max(younger, key=lambda lease: self._ages[lease.request])
            return self._revoke(self._leases.of_request(youngest.request))
        if self._running[-1] is not oldest:
            self._requeue(self._running[-1])
            return True
        return self._revoke(self._leases.of_request(oldest.start.owner) or list(self._leases))

    def _revoke(self, leases: list[Lease[Segment]]) -> bool:
        for lease in leases:
            self.release(lease.id, lease.request.stream)
        return bool(leases)

    def _requeue(self, branch: Branch) -> None:
        """Back to the queue; what it had is found or computed again when it is admitted."""
        branch.unload()
        self._running.remove(branch)
        insort(self._waiting, branch, key=_order)


def _told(start: Start, token: int) -> Update:
    """A drawn token. A script is certain: no other has a probability."""
    if not start.sampling.logprobs:
        return Update(start.branch, (token,))
    top = (TopLogprobs((token,), (0.0,)),) if start.sampling.top_logprobs else ()
    return Update(start.branch, (token,), (0.0,), top_logprobs=top)


def _order(branch: Branch) -> tuple[int, int]:
    return branch.order
