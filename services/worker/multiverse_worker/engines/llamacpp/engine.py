"""The llama.cpp engine: one continuous batch over all branches of all requests.

A step admits waiting branches (`admission`), divides a batch among those that have something
to compute, makes room for it (`pressure`), computes it, and ends what has ended. Fork and join
are sequence metadata (`cache`, `loader`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain

import llama_cpp
import numpy as np

from multiverse_shared.errors import (
    InvalidRequest,
    MultiverseError,
    NotFound,
    WorkerUnavailable,
)
from multiverse_shared.layout import next_position
from multiverse_shared.tree import Context, normalise
from multiverse_worker.cache_journal import CacheChange
from multiverse_worker.contract import (
    BranchId,
    Engine,
    EngineInfo,
    Load,
    Logits,
    Start,
    Update,
)
from multiverse_worker.engines.llamacpp.accounts import check_books
from multiverse_worker.engines.llamacpp.admission import Admission, Batch, share
from multiverse_worker.engines.llamacpp.branch import Branch
from multiverse_worker.engines.llamacpp.cache import KvCache
from multiverse_worker.engines.llamacpp.checks import check_start
from multiverse_worker.engines.llamacpp.endings import Endings
from multiverse_worker.engines.llamacpp.library import (
    DecodeError,
    Library,
    LibraryOptions,
    NoSlotError,
)
from multiverse_worker.engines.llamacpp.loader import Feed
from multiverse_worker.engines.llamacpp.meter import Meter
from multiverse_worker.engines.llamacpp.pressure import Pressure
from multiverse_worker.engines.llamacpp.receiving import Receiving
from multiverse_worker.engines.llamacpp.roster import Roster
from multiverse_worker.engines.llamacpp.shipping import Shipping
from multiverse_worker.tier.orders import Orders
from multiverse_worker.tier.pace import Pace
from multiverse_worker.tier.transfer import NO_TRANSFER, Transfer

FAILURES_IN_A_ROW = 2
TIER_WAIT_S = 0.002  # commands wait so long


class LlamaCppEngine(Engine):
    """See `Engine`. `namespace` names the weights; KV type and engine version are added.

    With `check` all books are checked after every step: for tests.
    """

    def __init__(
        self,
        options: LibraryOptions,
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        check: bool = False,
        transfer: Transfer = NO_TRANSFER,
    ) -> None:
        self._library = Library(options)
        self._batch_tokens = options.batch_tokens
        kind = "fa" if options.flash_attention else "plain"
        self.info = EngineInfo(
            engine="llamacpp",
            version=llama_cpp.__version__,
            namespace=f"{namespace}/llamacpp-{llama_cpp.__version__}/{options.kv_type}-{kind}",
            context_length=min(self._library.trained_context, options.kv_cells),
            kv_cells=options.kv_cells,
            vocab_size=self._library.vocab_size,
        )
        self.cache = KvCache(
            self._library,
            options.kv_cells,
            options.sequences,
            self.info.namespace,
            options.idle_cells,
        )
        self.roster = Roster(clock)
        self._pressure = Pressure(self.roster, self.cache)
        self._tier = transfer.tier
        self._pace = Pace()
        orders = Orders(transfer.tier, transfer.always)
        self._admission = Admission(self.roster, self.cache, self._pressure, orders)
        self._check = check
        self._endings = Endings(self.roster, self.cache, self._pressure)
        self._shipping = Shipping(transfer.tier, self.cache, self._pace, transfer.prefixes)
        self._receiving = Receiving(orders, self.cache, self._pressure, self._endings, self._pace)
        self._meter = Meter(orders)
        self._failed_in_a_row = 0

    # -- contract ----------------------------------------------------------------------------

    def start(self, start: Start) -> None:
        if running := self.roster.get(start.branch):
            error = InvalidRequest("the branch runs already; use a new number", field="branch")
            self._endings.fail(running, error)
            return
        try:
            base = self._base(start)
            context = normalise((*base, *start.context))
            check_start(start, context, self.info, self.cache.sequences)
        except MultiverseError as error:
            self._endings.refuse(start.branch, error)
            return
        fork = next_position(base) if base and start.block else None
        self.roster.add(start, context, self.cache.root(start.salt), fork)

    def abort(self, branch: BranchId) -> None:
        if running := self.roster.get(branch):
            self._endings.abort(running)

    def release(self, lease: str, stream: int) -> None:
        if ended := self.roster.leases.end(lease, stream):
            self.cache.unpin(ended.held)

    def lose_stream(self, stream: int) -> None:
        for branch in self.roster.of_stream(stream):
            self._endings.abort(branch)
        self.roster.leases.lose_stream(stream)

    def step(self) -> list[Update]:
        begun = time.perf_counter()
        self.tick()
        self._admission.admit()
        self._pace.begin(decoding=any(branch.decoding for branch in self.roster.admitted))
        self._shipping.send()
        batch = self._compose()
        if batch:
            self._compute(batch)
        elif self._tier and not self._endings.updates:  # all wait for the tier
            self._tier.wait(TIER_WAIT_S)
        self._meter.stepped(batch, begun)
        if self._check:
            check_books(self.roster, self.cache)
        return self._endings.take()

    def tick(self) -> None:
        for lease in self.roster.expired():
            self.cache.unpin(lease.held)

    @property
    def idle(self) -> bool:
        return not self.roster and not self._endings.updates

    def load(self) -> Load:
        return self._meter.load(self.roster, self.cache, self._pressure)

    def cache_changes(self) -> list[CacheChange]:
        return self.cache.changes.take()

    def drop_cached(self) -> None:
        for lease in self.roster.leases:
            self.release(lease.id, lease.request.stream)
        self.cache.drop_idle()

    def close(self) -> None:
        if self._tier:
            self._tier.close()
        self._library.close()

    def _base(self, start: Start) -> Context:
        if not start.base_key:
            return ()
        lease = self.roster.leases.by_key(start.base_key, start.branch.stream)
        if lease is None:
            raise NotFound("no lease on this base; send the context in full", field="base_key")
        return lease.context

    # -- a step ------------------------------------------------------------------------------

    def _compose(self) -> Batch:
        """Feeds for one batch that fits the pool; empty when there is nothing to compute."""
        ready = [branch for branch in self.roster if branch.holding and self._prepare(branch)]
        batch = share(ready, self._batch_tokens)
        while batch and not self.cache.make_room(sum(size for _, size in batch)):
            if len(batch) > 1:
                batch.pop()
            elif batch[0][0] is not ready[0]:  # those that decode have filled the batch
                batch = [(ready[0], 1)]
            elif not self._pressure.relieve(batch[0][0]):
                self._endings.wait(batch.pop()[0])
        return batch

    def _prepare(self, branch: Branch) -> bool:
        """Give the branch something to compute; false if it ended, or waits for a sequence."""
        while branch.feed is None:
            if branch.feeds is None:
                if self._shipping.ended(branch):
                    self._endings.finish(branch)
                return False
            if branch.coming and not self._receiving.settled(branch):
                return False
            try:
                step = next(branch.feeds)
            except StopIteration:
                self._loaded(branch)
                branch.begin()
                continue
            if isinstance(step, Feed):
                branch.feed = step
            elif step is not None:
                branch.coming = step
            elif not self._pressure.free_sequence(branch):
                self._endings.wait(branch)
                return False
        return True

    def _loaded(self, branch: Branch) -> None:
        """All of its context is resident."""
        self._endings.consume(branch)
        self._meter.reused += branch.loaded.reused
        branch.loaded_all()
        self._shipping.loaded(branch)

    def _compute(self, batch: Batch) -> None:
        ids: list[int] = []
        positions: list[int] = []
        sequences: list[int] = []
        wanted: list[list[bool]] = []
        for branch, size in batch:
            feed = branch.feed
            assert feed is not None
            start = feed.holding.chain.position
            ids.extend(feed.ids[feed.done : feed.done + size])
            positions.extend(range(start, start + size))
            sequences.extend([feed.holding.sequence] * size)
            last = feed.draws and feed.done + size == len(feed.ids)
            observed = self.observer is not None
            wanted.append([observed] * (size - 1) + [observed or last])
        try:
            rows = self._library.compute(ids, positions, sequences, list(chain(*wanted)))
        except NoSlotError:
            self._no_slot(batch[0][0])
            return
        except DecodeError as error:
            self._failed(batch, error)
            return
        self._failed_in_a_row = 0
        self._meter.computed(batch)
        at = 0
        for (branch, size), wants in zip(batch, wanted, strict=True):
            self._computed(branch, size, rows[at : at + sum(wants)])
            at += sum(wants)
        for branch, _ in batch:
            if branch.holding:  # it may have been put back for one before it
                self._prepare(branch)

    def _computed(self, branch: Branch, size: int, rows: list[Logits]) -> None:
        feed = branch.feed
        assert feed is not None
        self.cache.grow(feed.holding, list(feed.ids[feed.done : feed.done + size]))
        if self.observer:
            self.observer(branch.start.branch, feed.linear + feed.done, np.stack(rows))
        feed.done += size
        if branch.decoding:
            self._shipping.grown(branch)
        if feed.done < len(feed.ids):
            return
        branch.feed = None
        if feed.draws:
            if branch.feeds is not None:
                branch.feeds.close()
                self._loaded(branch)
            self._endings.updates.append(branch.draw(rows[-1]))

    def _no_slot(self, oldest: Branch) -> None:
        """The library sees less room than the books: make some, and try again next step."""
        if not self.cache.evict_one() and not self._pressure.relieve(oldest):
            self._endings.wait(oldest)

    def _failed(self, batch: Batch, error: DecodeError) -> None:
        """The branches of the batch end, the others go on. Raises when that keeps happening."""
        self._meter.failed_steps += 1
        self._failed_in_a_row += 1
        if self._failed_in_a_row == FAILURES_IN_A_ROW:
            raise error
        reason = WorkerUnavailable(f"{error}; try again")
        for branch, _ in batch:
            self._endings.fail(branch, reason)
