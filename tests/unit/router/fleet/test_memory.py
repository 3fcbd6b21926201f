"""What a router remembers of contexts is bounded, however many different ones it sees."""

from __future__ import annotations

import resource
from pathlib import Path

from multiverse_shared.tree import Text
from tests.unit.router.hand_fed import HandFedLink, fleet_of
from tests.unit.router.served import served_model

PREFIXES = 100_000
FULL = 50_000  # by then the index has been full for long
KEPT = 10_000
MOST_GROWTH = 2 << 20


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * resource.getpagesize()


async def test_memory_is_flat_over_a_hundred_thousand_unique_prefixes() -> None:
    links = [HandFedLink(address=f"worker:{number}") for number in range(4)]
    fleet = fleet_of(*links, placement="prefix_affinity", prefix_index=KEPT)
    pool = fleet.pool(served_model())
    before = 0
    for number in range(PREFIXES):
        if number == FULL:
            before = resident()
        pool.root(pool.prefix((Text((number % 300, number // 300, 7)),)))
    assert resident() - before < MOST_GROWTH
    assert len(fleet.prefixes) == KEPT
