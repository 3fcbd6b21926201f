"""A short run of `make chaos`."""

from __future__ import annotations

import pytest

from tests.reliability.chaos.run import chaos

REQUESTS = 90
SECONDS = 30.0


@pytest.mark.timeout(400)
async def test_parts_die_and_every_request_ends_once_and_whole() -> None:
    result = await chaos(REQUESTS, SECONDS, seed=5, scale=0.3)
    assert result["requests"] == REQUESTS, result
    assert result["finished"] + result["error_events"] == REQUESTS, result
    for name in ("lost", "duplicated", "differs", "hung", "left_running", "left_on_workers"):
        assert result[name] == 0, result
    assert result["kinds_of_fault"], result
