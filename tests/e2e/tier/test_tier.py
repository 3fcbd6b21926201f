"""Paths on other workers are joined at home: a small share of `make e2e-tier`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.tier.run import forking_prompts, run


@pytest.mark.timeout(900)
async def test_spread_paths_join_with_the_same_tokens_whatever_the_tier_does(model: Path) -> None:
    rounds = await run(model, 2, forking_prompts(4, seed=1), ["flip", "killed"], timeout_s=20.0)
    assert rounds.faults() == []
    assert list(rounds.done) == ["local", "spread", "flip", "killed"]
