"""Counts what the steps of an engine did. Knows no branch by name."""

from __future__ import annotations

import time

from multiverse_worker.contract import Load, Totals
from multiverse_worker.engines.llamacpp.admission import Batch
from multiverse_worker.engines.llamacpp.cache import KvCache
from multiverse_worker.engines.llamacpp.pressure import Pressure
from multiverse_worker.engines.llamacpp.roster import Roster
from multiverse_worker.step_meter import StepMeter
from multiverse_worker.tier.orders import Orders


class Meter:
    """One per engine."""

    def __init__(self, orders: Orders) -> None:
        self.failed_steps = 0
        self._tier = orders.counts
        self._computing = orders.computing
        self.reused = 0
        self._steps = self._decoded = self._prefilled = 0
        self._step_tokens, self._step_s = 0, 0.0
        self._only_decodes = False
        self._sizes = StepMeter()

    def computed(self, batch: Batch) -> None:
        """To be called before the branches of the batch go on."""
        self._only_decodes = all(branch.decoding and size == 1 for branch, size in batch)
        for branch, size in batch:
            feed = branch.feed
            assert feed is not None
            # The last token of a context counts as decoded: the first one is drawn behind it.
            drawn = feed.draws and feed.done + size == len(feed.ids)
            decoded = size if branch.decoding else int(drawn)
            self._decoded += decoded
            self._prefilled += size - decoded
            if not branch.decoding:
                branch.to_load = max(0, branch.to_load - size)

    def stepped(self, batch: Batch, begun: float) -> None:
        """A step is over that began at `begun`, by `time.perf_counter`."""
        self._steps += 1
        self._step_tokens = sum(size for _, size in batch)
        self._step_s = time.perf_counter() - begun
        if batch and self._only_decodes:
            self._sizes.saw(len(batch), self._step_s)
        elif batch:
            self._computing.add(self._step_tokens, self._step_s)

    def load(self, roster: Roster, cache: KvCache, pressure: Pressure) -> Load:
        running = len(roster.admitted)
        census = cache.ledger.census
        return Load(
            running=running,
            waiting=len(roster) - running,
            leases=len(roster.leases),
            kv_cells_free=census.free,
            kv_cells=cache.ledger.total,
            kv_cells_idle=census.idle,
            kv_cells_leased=census.leased,
            sequences=cache.sequences - cache.sequences_to_be_had,
            step_tokens=self._step_tokens,
            step_s=self._step_s,
            step_ms=self._sizes.step_ms,
            totals=Totals(
                steps=self._steps,
                decoded_tokens=self._decoded,
                prefilled_tokens=self._prefilled,
                reused_tokens=self.reused,
                evictions=cache.evictions,
                revocations=pressure.revocations,
                preemptions=pressure.preemptions,
                failed_steps=self.failed_steps,
                tier=self._tier.totals,
            ),
        )
