"""The load test at work, in small: users of all kinds, a report, thresholds, a lost worker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from loadtest.thresholds import broken, read_thresholds

from tests.e2e.conftest import MODEL

SECONDS = 30
USERS = 20
KINDS = {"BadInput", "Chat", "ForkHeavy", "GrpcForks", "Leaver", "LongPrefix", "Replay"}


def load(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit status and figures of a run."""
    command = [sys.executable, "-m", "loadtest", "--model", str(MODEL), *arguments]
    process = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=110
    )
    assert process.stdout, process.stderr
    return process.returncode, json.loads(process.stdout.splitlines()[-1])


def test_all_users_are_served_while_a_worker_is_lost_and_comes_back(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    status, figures = load(
        tmp_path,
        *("--users", str(USERS), "--seconds", str(SECONDS), "--pause", "3"),
        *("--workers", "2", "--kill-worker-after", str(SECONDS / 2)),
        *("--report", str(page), "--first-token-target", "30", "--token-target", "5"),
        *("--thresholds", str(thresholds(tmp_path, SECONDS / 2))),
    )
    assert figures["broken"] == []
    assert status == 0
    assert figures["by_user"].keys() >= KINDS
    assert figures["outcomes"]["silent"] == 0
    assert figures["goodput"]["share"] > 0.5
    assert figures["parallelism"] > 1
    for name in ("first_token_s", "critical_token_s", "path_spread_s"):
        assert figures[name]["p50"] is not None
    text = page.read_text("utf-8")
    assert text.count("<svg") == 7
    assert "All thresholds were kept" in text


def thresholds(folder: Path, seconds: float) -> Path:
    """Bounds that a loaded machine keeps, too."""
    file = folder / "thresholds.json"
    bounds = {
        "outcomes.silent": {"most": 0},
        "requests": {"least": seconds},
        "router_series": {"most": 2000},
    }
    file.write_text(json.dumps(bounds), "utf-8")
    return file


def test_a_threshold_that_is_not_kept_fails_the_run(tmp_path: Path) -> None:
    file = tmp_path / "thresholds.json"
    file.write_text('{"requests": {"least": 100000}, "no.such": {"most": 1}}', "utf-8")
    arguments = ("--users", "1", "--seconds", "1", "--kinds", "Chat", "--thresholds", str(file))
    status, figures = load(tmp_path, *arguments, "--pause", "0.2")
    assert status == 1
    assert [fault.partition(" ")[0].rstrip(":") for fault in figures["broken"]] == [
        "requests",
        "no.such",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ('{"failures": {}}', "give `least`, `most`"),
        ('{"failures": 3}', "give `least`, `most`"),
        ('{"failures": {"max": 3}}', "give `least`, `most`"),
        ('{"failures": {"most": "3"}}', "numbers"),
    ],
)
def test_a_file_of_thresholds_that_says_nothing_is_refused(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "thresholds.json"
    file.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=said):
        read_thresholds(file)


def test_bounds_are_kept_up_to_their_edges() -> None:
    summary = {"a": {"p99": 2.0}, "b": 3}
    assert broken(summary, {"a.p99": {"most": 2}, "b": {"least": 3}}) == []
    assert broken(summary, {"a.p99": {"most": 1.9}}) == ["a.p99 is 2, at most 1.9 is wanted"]
    assert broken(summary, {"b": {"least": 3.1}}) == ["b is 3, at least 3.1 is wanted"]
