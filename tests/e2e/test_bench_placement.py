"""A small run of `make bench-placement` works and says what it should; no goodput is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "models" / "multiverse-tiny"
POLICIES = {"eager", "serial", "auto"}


def test_every_request_is_answered_or_refused_under_each_policy() -> None:
    command = [sys.executable, "-m", "tests.bench.placement_fleet", "--model", str(MODEL)]
    command += ["--workers", "2", "--at-once", "2", "--probe", "8", "--prefill", "4000"]
    command += ["--rounds", "1", "--warm", "2", "--seconds", "4", "--loads", "0.8", "--target", "5"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert (found["engine"], found["workers"]) == ("llamacpp", 2)
    assert found["machine"] == "qwen32b-fp16-4x3090"
    assert found["alone_ms"] >= 27  # a step there
    assert found["token_ms"] == pytest.approx(5 * found["alone_ms"], abs=0.05)
    (found,) = found["loads"]
    assert found["load"] == 0.8
    assert found["good"].keys() == found["refused"].keys() == found["latency_s"].keys() == POLICIES
    assert found["requests"] > 0
    for policy in POLICIES:
        assert sum(found["why"][policy].values()) == found["refused"][policy]
        assert 0 <= found["good"][policy] <= 1 - found["refused"][policy] / found["requests"] + 1e-4
        good = sum(found["good_by_round"][policy])
        assert found["good"][policy] == pytest.approx(good / found["requests"], abs=1e-4)
        assert 0 < found["latency_s"][policy]["p50"] <= found["latency_s"][policy]["p99"]
