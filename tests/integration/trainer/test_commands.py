"""`multiverse train run | resume | estimate`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.trainer.rows import TINY, generated, write_rows

pytestmark = pytest.mark.timeout(400)


def multiverse(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "multiverse_cli.main", "train", *arguments]
    quiet = {"OMP_NUM_THREADS": "1", "MULTIVERSE_TRAIN_MAX_STEPS": "2"}
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **quiet})


def test_a_training_is_estimated_run_refused_and_resumed(tmp_path: Path) -> None:
    data = write_rows(tmp_path / "d.jsonl", [*generated(8), {"id": "broken"}])
    output = tmp_path / "out"
    options = ["--preset", "tiny", "--model", str(TINY), "--data", str(data)]
    options += ["--output", str(output)]
    said = json.loads(multiverse("estimate", *options).stdout)
    assert said["data"]["samples"] == 8
    assert said["data"]["rejects"] == 1
    assert said["estimate"]["memory_gib"] > 0
    assert json.loads((output / "rejects.jsonl").read_text())["id"] == "broken"

    done = multiverse("run", *options, "--gguf", "q8_0")
    assert done.returncode == 0, done.stderr[-2000:]
    summary = json.loads(done.stdout.splitlines()[-1])
    assert Path(summary["gguf"]).read_bytes()[:4] == b"GGUF"
    assert '"memory_gib"' in done.stderr

    again = multiverse("run", *options)
    assert again.returncode == 1
    assert again.stderr.strip().endswith("resume, or name another output")

    resumed = multiverse("resume", str(output))
    assert resumed.returncode == 0, resumed.stderr[-2000:]
    assert json.loads(resumed.stdout.splitlines()[-1])["steps"] == summary["steps"]

    write_rows(data, generated(9))
    changed = multiverse("resume", str(output))
    assert changed.returncode == 1
    assert "differ from those" in changed.stderr
