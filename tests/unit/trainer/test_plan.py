"""Curriculum and packing: shares as scheduled, every sample once a pass, rows that fit."""

from __future__ import annotations

import pytest

from multiverse_trainer.batches.curriculum import PUBLISHED_SHARES, Pick, draw_passes
from multiverse_trainer.batches.packing import pack


def test_each_pass_has_its_share_and_every_sample_once() -> None:
    passes = draw_passes(7, PUBLISHED_SHARES, 240)
    assert [sum(p.parallel for p in picks) / 240 for picks in passes] == list(PUBLISHED_SHARES)
    for picks in passes:
        assert sorted(pick.sample for pick in picks) == list(range(240))
    orders = [tuple(pick.sample for pick in picks) for picks in passes]
    assert len(set(orders)) == len(orders)


def test_a_pass_may_keep_the_order_of_the_data() -> None:
    [picks] = draw_passes(7, [0.5], 50, shuffled=False)
    assert [pick.sample for pick in picks] == list(range(50))
    assert sum(pick.parallel for pick in picks) == 25


def test_the_seed_decides_everything() -> None:
    assert draw_passes(7, [0.5], 50) == draw_passes(7, [0.5], 50)
    assert draw_passes(7, [0.5], 50) != draw_passes(8, [0.5], 50)


@pytest.mark.parametrize("several", [True, False])
def test_rows_keep_the_order_and_the_limit(several: bool) -> None:
    passes = draw_passes(1, [0.0, 0.5], 100)

    def length(pick: Pick) -> int:
        return 1 + pick.sample % 17

    rows = pack(passes, length, 40, several=several)
    assert [pick for row in rows for pick in row] == [pick for picks in passes for pick in picks]
    assert max(sum(map(length, row)) for row in rows) <= 40
    assert (max(map(len, rows)) > 1) is several
    if several:
        assert sum(map(len, rows)) / len(rows) > 3
