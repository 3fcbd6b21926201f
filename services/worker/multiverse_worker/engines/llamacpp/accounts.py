"""Checks the engine's books against each other: the debug switch of the tests."""

from __future__ import annotations

from collections import Counter

from multiverse_worker.engines.llamacpp.cache import KvCache
from multiverse_worker.engines.llamacpp.cells import Use
from multiverse_worker.engines.llamacpp.index import Holding
from multiverse_worker.engines.llamacpp.roster import Roster


def check_books(roster: Roster, cache: KvCache) -> None:
    """Assert that free + running + leased + idle = pool, and that every pin has its owner."""
    cache.check()
    running: Counter[Holding] = Counter()
    for branch in roster.admitted:
        assert branch.holding
        running.update([branch.holding, *branch.loaded.apart])
    leased = Counter(lease.held for lease in roster.leases)
    for holding in cache:
        pins = running[holding] + leased[holding]
        assert holding.pins == pins, f"{holding.pins} pins, {pins} owners"
        use = Use.RUNNING if running[holding] else Use.LEASED if leased[holding] else Use.IDLE
        assert cache.ledger.use_of(holding.sequence) is use, "cells count for somebody else"
    assert set(running) | set(leased) <= set(cache), "somebody holds what is forgotten"
