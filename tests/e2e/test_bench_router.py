"""A small run of `make bench-router` works and says what it should; its times are not judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODEL = Path(__file__).parents[2] / "models" / "multiverse-tiny"
ADDED = {"added_ttft_p50_ms", "added_ttft_p99_ms"}
COST = {"tokens_per_core_s", "rss_mb", "loop_lag_p99_ms", "generator_cpu_share"}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The last line of a run without a gateway."""
    command = [sys.executable, "-m", "tests.bench.router", "--model", str(MODEL)]
    command += ["--streams", "1", "3", "--rate", "100", "--seconds", "0.2", "--rounds", "1"]
    command += ["--gateway", str(tmp_path_factory.mktemp("none"))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    last: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return last


def test_the_last_line_is_about_the_largest_number_of_streams(printed: dict[str, Any]) -> None:
    assert (printed["streams"], printed["rate"], printed["gateway"]) == (3, 100, None)
    assert [figures["streams"] for figures in printed["by_streams"]] == [1, 3]
    for name in (*ADDED, "tokens_per_core_s", "rss_mb"):
        for key in (name, f"chat_{name}"):
            least, most = printed[f"{key}_spread"]
            assert least <= printed[key] <= most


def test_every_api_of_the_router_has_its_figures(printed: dict[str, Any]) -> None:
    for figures in printed["by_streams"]:
        for api in ("generate", "chat"):
            assert figures[api].keys() >= ADDED | COST
            most = figures["answers"] * figures["answer_tokens"]
            assert most / 2 < figures[api]["tokens"] <= most
        assert figures["tree"].keys() >= COST
        assert figures["tree"]["tokens"] > 10 * figures["streams"]
