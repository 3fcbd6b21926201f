"""The llama.cpp engine: one continuous batch over all branches of all requests.

Policy, in the order of a step: admit waiting branches, oldest request first; every decoding
branch gets its token, what is left of the batch goes to loading, oldest first; if the pool is
full, evict idle contexts, then leave the youngest out; if not even the oldest fits, take from
the youngest: its leases, then its branches (they are computed again later). Fork and join are
sequence metadata (`cache`, `loader`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import chain

import llama_cpp
import numpy as np

from multiverse_shared.errors import (
    CapacityExceeded,
    InvalidRequest,
    MultiverseError,
    NotFound,
    RequestTooLarge,
)
from multiverse_shared.layout import next_position
from multiverse_shared.tree import Block, Context, Text, count, normalise, texts
from multiverse_worker.contract import (
    BranchId,
    Engine,
    EngineInfo,
    Finish,
    FinishReason,
    Ids,
    Load,
    Logits,
    Start,
    Update,
)
from multiverse_worker.engines.llamacpp.branch import Branch
from multiverse_worker.engines.llamacpp.cache import Holding, KvCache, NoRoomError
from multiverse_worker.engines.llamacpp.library import Library, LibraryOptions, NoSlotError
from multiverse_worker.leases import Lease, LeaseBook
from multiverse_worker.sampling_check import check_sampling

Batch = list[tuple[Branch, int]]  # branch, number of tokens of its feed


class LlamaCppEngine(Engine):
    """See `Engine`. `namespace` names the weights; KV type and engine version are added."""

    def __init__(
        self,
        options: LibraryOptions,
        namespace: str,
        clock: Callable[[], float] = time.monotonic,
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
            self._library, options.kv_cells, options.sequences, self.info.namespace
        )
        self._leases: LeaseBook[Holding] = LeaseBook(clock)
        self._branches: dict[BranchId, Branch] = {}
        self._ages: dict[str, int] = {}
        self._arrivals = 0
        self._updates: list[Update] = []

    # -- contract ----------------------------------------------------------------------------

    def start(self, start: Start) -> None:
        try:
            base = self._base(start)
            context = normalise((*base, *start.context))
            self._check(start, context)
        except MultiverseError as error:
            finish = Finish(FinishReason.FAILED, error=error)
            self._updates.append(Update(start.branch, finish=finish))
            return
        self._arrivals += 1
        age = self._ages.setdefault(start.request, self._arrivals)
        fork = next_position(base) if base and start.block else None
        self._branches[start.branch] = Branch(start, context, (age, self._arrivals), fork)

    def abort(self, branch: BranchId) -> None:
        if branch in self._branches:
            self._retire(self._branches[branch], Finish(FinishReason.ABORTED))

    def release(self, lease: str) -> None:
        ended = self._leases.end(lease)
        if ended:
            self.cache.unpin(ended.held)

    def lose_stream(self, stream: int) -> None:
        for branch in [b for b in self._branches if b.stream == stream]:
            self.abort(branch)
        self._leases.lose_stream(stream)

    def step(self) -> list[Update]:
        self.tick()
        self._admit()
        batch = self._compose()
        if batch:
            self._compute(batch)
        updates, self._updates = self._updates, []
        return updates

    def tick(self) -> None:
        live = {branch.start.request for branch in self._branches.values()}
        for lease in self._leases.expired(live):
            self.cache.unpin(lease.held)
        if len(self._ages) > 64 + 2 * (len(live) + len(self._leases)):
            live.update(lease.request for lease in self._leases)
            self._ages = {request: age for request, age in self._ages.items() if request in live}

    @property
    def idle(self) -> bool:
        return not self._branches and not self._updates

    def load(self) -> Load:
        running = sum(branch.holding is not None for branch in self._branches.values())
        return Load(
            running=running,
            waiting=len(self._branches) - running,
            leases=len(self._leases),
            kv_cells_free=self.cache.ledger.free,
            kv_cells=self.cache.ledger.total,
        )

    def drop_cached(self) -> None:
        for lease in self._leases:
            self.release(lease.id)
        self.cache.drop_idle()

    def close(self) -> None:
        self._library.close()

    # -- input -------------------------------------------------------------------------------

    def _base(self, start: Start) -> Context:
        if not start.base_key:
            return ()
        lease = self._leases.by_key(start.base_key, start.branch.stream)
        if lease is None:
            raise NotFound("no lease on this base; send the context in full", field="base_key")
        return lease.context

    def _check(self, start: Start, context: Context) -> None:
        """Refuse what could never be served, with the reason."""
        if not context:
            raise InvalidRequest("the context is empty; send a token", field="context")
        if start.branch in self._branches:
            raise InvalidRequest("the branch runs already; use a new number", field="branch")
        if start.max_tokens > 0 and not isinstance(context[-1], Text):
            raise InvalidRequest("nothing follows the block; send a join header", field="context")
        if any(not stop.keep and len(stop.ids) != 1 for stop in start.stops):
            raise InvalidRequest("a stop that is dropped must be one id", field="stops")
        if not all(stop.ids for stop in start.stops):
            raise InvalidRequest("a stop needs at least one id", field="stops")
        for ids in _all_ids(start, context):
            if ids and not (min(ids) >= 0 and max(ids) < self.info.vocab_size):
                raise InvalidRequest(
                    f"token ids must be 0 to {self.info.vocab_size - 1}", field="context"
                )
        check_sampling(start.sampling, self.info.vocab_size)
        if any(block.path_offset or block.join_offset for block in _blocks(context)):
            raise InvalidRequest(
                "llama.cpp can't repeat positions; serve the dialect with offsets 0",
                field="context",
            )
        tail = max([len(start.length_tail), *(len(stop.tail) for stop in start.stops)])
        longest = next_position(context) + start.max_tokens + tail
        cells = count(context) + start.max_tokens + tail
        if longest > self.info.context_length:
            raise RequestTooLarge(
                f"the branch may reach position {longest}, the model's context is "
                f"{self.info.context_length}; lower max_tokens or shorten the prompt",
                field="max_tokens",
            )
        if cells > self.info.kv_cells:
            raise RequestTooLarge(
                f"the branch may need {cells} KV cells of {self.info.kv_cells}; "
                "lower max_tokens or raise kv_cells",
                field="max_tokens",
            )

    # -- scheduling --------------------------------------------------------------------------

    def _by_age(self) -> list[Branch]:
        return sorted(self._branches.values(), key=lambda branch: branch.order)

    def _running(self) -> bool:
        """Whether some branch is admitted, and so will end."""
        return any(branch.holding for branch in self._branches.values())

    def _admit(self) -> None:
        for branch in self._by_age():
            if branch.holding is None:
                try:
                    branch.admit(self.cache, self.cache.open(self.cache.root))
                except NoRoomError:
                    if not self._running():
                        self._relieve(branch)
                    return

    def _compose(self) -> Batch:
        """Feeds for one batch that fits the pool; empty when there is nothing to compute."""
        ready = [branch for branch in self._by_age() if branch.holding and self._prepare(branch)]
        batch: Batch = []
        room = self._batch_tokens
        for branch in sorted(ready, key=lambda branch: (not branch.decoding, branch.order)):
            assert branch.feed is not None
            size = min(len(branch.feed.ids) - branch.feed.done, room)
            if size:
                batch.append((branch, size))
                room -= size
        batch.sort(key=lambda entry: entry[0].order)
        while batch and not self.cache.make_room(sum(size for _, size in batch)):
            if len(batch) > 1:
                batch.pop()
            elif batch[0][0] is not ready[0]:  # those that decode have filled the batch
                batch = [(ready[0], 1)]
            elif not self._relieve(batch[0][0]):
                self._wait(batch.pop()[0])
        return batch

    def _prepare(self, branch: Branch) -> bool:
        """Give the branch something to compute; false if it ended, or waits for a sequence."""
        while branch.feed is None:
            if branch.feeds is None:
                self._finish(branch)
                return False
            try:
                branch.feed = next(branch.feeds)
            except StopIteration:
                self._end_consumed(branch)
                branch.loaded_all()
            else:
                if branch.feed is None and not self._relieve(branch):
                    self._wait(branch)
                    return False
        return True

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
            if not self._relieve(batch[0][0]):
                self._wait(batch[0][0])
            return
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
        if feed.done < len(feed.ids):
            return
        branch.feed = None
        if feed.draws:
            self._updates.append(branch.draw(rows[-1]))

    # -- ends --------------------------------------------------------------------------------

    def _end_consumed(self, branch: Branch) -> None:
        """The context is resident: what it was joined from is not needed any more."""
        for lease_id in branch.start.consumes:
            lease = self._leases.end(lease_id)
            if lease:
                self.cache.discard(lease.held)

    def _finish(self, branch: Branch) -> None:
        """Report the end; the branch's pin becomes a lease."""
        start, ending, holding = branch.start, branch.ending, branch.holding
        assert ending is not None
        assert holding is not None
        key = self.cache.name(holding)
        context = normalise(branch.final_context)
        lease = self._leases.grant(holding, start.request, start.branch.stream, key, context)
        finish = Finish(
            ending.reason,
            ending.stop,
            ending.appended,
            lease.id,
            key,
            branch.loaded.reused,
            branch.context_tokens,
        )
        del self._branches[start.branch]
        self._updates.append(Update(start.branch, finish=finish))

    def _retire(self, branch: Branch, finish: Finish) -> None:
        """End a branch without a lease."""
        holding = branch.holding
        branch.unload()
        if holding:
            self.cache.unpin(holding)
        del self._branches[branch.start.branch]
        self._updates.append(Update(branch.start.branch, finish=finish))

    # -- pressure ----------------------------------------------------------------------------

    def _relieve(self, oldest: Branch) -> bool:
        """Take memory from those behind `oldest`; false when there is nothing to take.

        Last of all, when nothing else runs, leases of its own request, then all others.
        """
        leases = self._leases_behind(oldest)
        if leases:
            for lease in leases:
                self.release(lease.id)
            return True
        younger = [b for b in self._by_age() if b.holding and b.order > oldest.order]
        if younger:
            self._requeue(younger[-1])
            return True
        if self._others_run(oldest):
            return False
        left = self._leases.of_request(oldest.start.request) or list(self._leases)
        for lease in left:
            self.release(lease.id)
        return bool(left)

    def _others_run(self, branch: Branch) -> bool:
        """Whether a branch but this one has memory: it will end, and leave it."""
        return any(other.holding for other in self._branches.values() if other is not branch)

    def _leases_behind(self, oldest: Branch) -> list[Lease[Holding]]:
        """The leases of the youngest request that is younger than that of `oldest`."""
        age = self._ages[oldest.start.request]
        younger = [lease for lease in self._leases if self._ages[lease.request] > age]
        if not younger:
            return []
        youngest = max(younger, key=lambda lease: self._ages[lease.request])
        return self._leases.of_request(youngest.request)

    def _requeue(self, branch: Branch) -> None:
        """Back to the queue; what it had is computed again (or found) when it is admitted."""
        holding = branch.holding
        assert holding is not None
        branch.unload()
        self.cache.discard(holding)

    def _wait(self, branch: Branch) -> None:
        """Nothing can be taken: older branches will leave something, or it never fits."""
        if self._others_run(branch):
            return
        error = CapacityExceeded("the KV pool is full and nothing can be taken from others")
        self._retire(branch, Finish(FinishReason.FAILED, error=error))


def _blocks(context: Context) -> list[Block]:
    """All blocks, nested ones included."""
    blocks = [item for item in context if isinstance(item, Block)]
    return blocks + [inner for block in blocks for path in block.paths for inner in _blocks(path)]


def _all_ids(start: Start, context: Context) -> list[Ids]:
    """Every id sequence of a command."""
    stops = [ids for stop in start.stops for ids in (stop.ids, stop.tail)]
    own = [start.length_tail, start.script, *start.sampling.banned]
    return [text.ids for text in texts(context)] + stops + own
