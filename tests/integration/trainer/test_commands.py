"""`multiverse train run | resume | estimate`, in this process: a process of its own loads torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from multiverse_cli.main import app
from multiverse_shared.errors import InvalidRequest
from tests.unit.trainer.rows import TINY, generated, write_rows

# What transformers and its Trainer warn of is theirs.
pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]


def multiverse(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["train", *arguments])


def refused(*arguments: str) -> str:
    """What the command says when it does not do what it was asked to."""
    error = multiverse(*arguments).exception
    assert isinstance(error, InvalidRequest), error
    return error.message


def test_a_training_is_estimated_run_refused_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTIVERSE_TRAIN_MAX_STEPS", "2")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", "")  # the run sets it
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
    assert done.exit_code == 0, done.exception
    summary = json.loads(done.stdout.splitlines()[-1])
    assert Path(summary["gguf"]).read_bytes()[:4] == b"GGUF"
    assert '"memory_gib"' in done.stderr
    assert (output / "loss.png").read_bytes()[1:4] == b"PNG"

    assert refused("run", *options).endswith("resume, or name another output")

    resumed = multiverse("resume", str(output))
    assert resumed.exit_code == 0, resumed.exception
    assert json.loads(resumed.stdout.splitlines()[-1])["steps"] == summary["steps"]

    write_rows(data, generated(9))
    assert "differ from those" in refused("resume", str(output))
