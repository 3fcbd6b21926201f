"""`multiverse eval` against a real router and worker."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from multiverse_cli.stack import Stack
from tests.e2e.processes import COMMAND

TASKS = 8
WITHIN_S = 600  # also on a machine with much else to do

pytestmark = pytest.mark.timeout(2 * WITHIN_S)


def evaluate(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [*COMMAND, "eval", *arguments], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_generated_tasks_are_right_in_every_way_and_fork_when_they_may(
    stack: Stack, tmp_path: Path
) -> None:
    ways = ["--parallel", "auto", "--parallel", "off"]
    asked = ["run", "generated", "--url", stack.url, "--tasks", str(TASKS), *ways]
    result = evaluate(*asked, "--out", str(tmp_path))
    forked, plain = result["arms"]["auto"], result["arms"]["off"]
    assert min(forked["pass_at_1"]["value"], plain["pass_at_1"]["value"]) >= 0.75
    assert (forked["activation"], plain["activation"]) == (1.0, 0.0)
    assert (forked["malformed"], result["failed"]) == (0.0, 0)
    assert forked["parallelism"] > 1.8
    assert forked["critical_path_tokens"] < plain["critical_path_tokens"]
    assert {path.name for path in tmp_path.iterdir()} == {
        "answers.jsonl",
        "report.html",
        "report.json",
        "report.png",
    }
    again = evaluate(*asked, "--out", str(tmp_path))
    assert again["arms"]["auto"]["asked_now"] == 0
    assert again["arms"]["auto"]["pass_at_1"] == forked["pass_at_1"]


def test_a_run_that_is_interrupted_goes_on(stack: Stack, tmp_path: Path) -> None:
    asked = [*COMMAND, "eval", "run", "generated", "--url", stack.url, "--concurrency", "1"]
    asked += ["--tasks", "20", "--out", str(tmp_path)]
    answers = tmp_path / "answers.jsonl"
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # also behind a shell's `&`
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(asked, stdout=quiet, stderr=quiet, preexec_fn=heeds)
    try:
        deadline = time.monotonic() + WITHIN_S
        while not answers.exists() or answers.read_bytes().count(b"\n") < 4:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(WITHIN_S) != 0
    finally:
        process.kill()
        process.wait()
    done = answers.read_bytes().count(b"\n") - 1
    assert 0 < done < 20
    result = evaluate(*asked[len(COMMAND) + 1 :])
    assert result["arms"]["auto"]["answers"] == 20
    assert 0 < result["arms"]["auto"]["asked_now"] <= 20 - done + 1


def test_table_2_comes_with_all_its_keys(model: Path, tmp_path: Path) -> None:
    """The model stands for its own twin here."""
    models = ["--model", str(model), "--twin", str(model)]
    table = evaluate(
        "table2", *models, "--tasks", "6", "--timed", "2", "--out", str(tmp_path / "table")
    )
    assert table["n"] == 6
    assert {"parallelism", "activation", "pass_twin", "pass_parallel", "pass_plain"} <= set(table)
    assert len(table["diff_ci"]) == 2
    assert min(table["speedup_twin"], table["speedup_serial"]) > 0


def test_figures_are_measured_with_the_bound_of_the_engine(model: Path, tmp_path: Path) -> None:
    models = ["--model", str(model), "--twin", str(model)]
    small = ["--tasks", "3", "--budgets", "40", "--budgets", "300", "--timed", "3"]
    small += ["--batches", "1", "--batches", "2", "--batch-tasks", "2"]
    found = evaluate("figures", *models, *small, "--out", str(tmp_path))
    assert [point["critical_tokens"] for point in found["figure7"]] == [40, 300]
    assert found["figure7"][0]["pass_parallel"]["value"] < 1
    assert all(point["bound_ms_per_token"] > 0 for point in found["figure8a"])
    assert all(point["bound"] > 0 for point in found["figure8b"])
    for name in ("figure7", "figure8a", "figure8b"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_models_are_compared_on_the_same_tasks(model: Path, tmp_path: Path) -> None:
    arms = ["--arm", f"parallel={model}", "--arm", f"drift={model},positions=sequential"]
    result = evaluate("compare", *arms, "--tasks", "4", "--out", str(tmp_path))
    assert set(result["arms"]) == {"parallel", "drift"}
    assert result["pass_at_1_difference"]["drift"]["questions"] == 4
