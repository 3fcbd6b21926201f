"""A short run of `make curator-chaos`."""

from __future__ import annotations

import pytest

from tests.reliability.curator_chaos import arguments, chaos

SAMPLES = 20
SHORT = "--latency 0.1 --down 1 --redis-down 0.5 --lease 2 --stages summary rewrite --seed 7"
NEVER = (
    "exported_twice",
    "miscounted",
    "unexplained",
    "paid_twice",
    "asked_after_answered",
)


@pytest.mark.timeout(400)
def test_parts_die_and_every_sample_ends_once_and_no_stored_answer_is_paid_twice() -> None:
    result = chaos(arguments().parse_args(["--samples", str(SAMPLES), *SHORT.split()]))
    assert result["killed_in"] == {"summary": True, "rewrite": True}, result
    ended = result["ended"]
    assert (ended["pending"], ended["dead"]) == (0, 0), result
    assert ended["converted"] + ended["sequential"] == SAMPLES, result
    assert result["exported"] == ended["converted"] > 0, result
    for name in NEVER:
        assert not result[name], result
    assert result["teacher_asked"] == result["ledger_asked"], result
    assert result["stored_answers"] == result["ledger_answered"], result
    assert result["passed"], result
