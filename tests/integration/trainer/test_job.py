"""The training job as a process: killed, stopped, out of space; and what it leaves behind."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from multiverse_trainer.recipe.checkpoints import MARK, checkpoints, latest
from tests.unit.trainer.rows import TINY, generated, write_rows

STEPS = 8
QUIET = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
pytestmark = pytest.mark.timeout(1200)  # a process starts in seconds, on a busy machine in many


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("data") / "d.jsonl", generated(60))


def write_config(data: Path, output: Path, **settings: Any) -> Path:
    about = {
        "preset": "tiny",
        "optimiser": "adamw",
        "model": str(TINY),
        "data": [str(data)],
        "output": str(output),
        "shares": [0.0, 0.5, 1.0],
        "max_tokens": 256,
        "rows": 2,
        "max_steps": STEPS,
        "save_steps": 2,
        "keep": 10,
        **settings,
    }
    config = output.with_suffix(".json")
    config.write_text(json.dumps(about), "utf-8")
    return config


def start(
    data: Path, output: Path, limit: Callable[[], None] | None = None, **settings: Any
) -> subprocess.Popen[str]:
    config = write_config(data, output, **settings)
    return subprocess.Popen(
        [sys.executable, "-m", "multiverse_trainer", "--config", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **QUIET},
        preexec_fn=limit,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate()
    assert process.returncode == 0, err[-2000:]
    summary: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return summary


def wait_for_loss(process: subprocess.Popen[str], number: int) -> None:
    """Until the log has told that many losses."""
    assert process.stdout is not None
    for line in process.stdout:
        number -= "'loss'" in line
        if not number:
            return
    raise AssertionError("the training ended before")


def losses(output: Path) -> dict[int, float]:
    newest = latest(output)
    assert newest is not None
    history = json.loads((newest / "trainer_state.json").read_text("utf-8"))["log_history"]
    return {entry["step"]: entry["loss"] for entry in history if "loss" in entry}


@pytest.fixture(scope="module")
def reference(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("reference") / "out"
    summary = finish(start(data, output))
    assert summary["finished"]
    assert summary["steps"] == STEPS
    assert len(losses(output)) == STEPS
    return output


def same_weights(one: Path, other: Path) -> bool:
    a, b = (load_file(path / "model" / "model.safetensors") for path in (one, other))
    return a.keys() == b.keys() and all((a[name] == b[name]).all() for name in a)


def test_killed_and_out_of_space_a_training_goes_on_bit_for_bit(
    data: Path, reference: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    process = start(data, output)
    wait_for_loss(process, 5)
    process.kill()
    process.communicate()
    whole = latest(output)
    assert whole is not None
    assert 2 <= int(whole.name.rpartition("-")[2]) < STEPS
    half = output / "checkpoint-7"  # what a save that was killed looks like
    half.mkdir()
    (half / "trainer_state.json").write_text("{", "utf-8")

    def little_room() -> None:
        size = 1 << 20  # less than the weights
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    process = start(data, output, little_room)
    _, err = process.communicate()
    assert process.returncode == 1
    told = err[err.index("multiverse_trainer: could not write") :]
    assert str(output) in told
    assert f"{whole} is complete: make room and resume" in told
    assert "Traceback" not in told
    assert latest(output) == whole

    assert finish(start(data, output))["finished"]
    assert losses(output) == losses(reference)
    assert same_weights(output, reference)
    assert not half.exists()


def test_sigterm_saves_and_ends_well(data: Path, reference: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    process = start(data, output, save_steps=100)
    wait_for_loss(process, 2)
    process.send_signal(signal.SIGTERM)
    summary = finish(process)
    assert not summary["finished"]
    assert [c.name for c in checkpoints(output)] == [f"checkpoint-{summary['steps']}"]
    assert 2 <= summary["steps"] < STEPS
    due = {step: loss for step, loss in losses(reference).items() if step <= summary["steps"]}
    assert losses(output) == due
    assert not (output / "model").exists()


def test_the_finished_model_can_be_served(reference: Path) -> None:
    model = reference / "model"
    card = json.loads((model / "multiverse.json").read_text("utf-8"))
    assert card == {"dialect": "multiverse", "prompt_suffix": " in parallel"}
    assert json.loads((model / "config.json").read_text("utf-8"))["use_cache"] is True
    check = [sys.executable, "-m", "multiverse_cli.main", "model", "check", str(model), "--json"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all((c / MARK).is_file() for c in checkpoints(reference))
    assert list((reference / "tensorboard").iterdir())


def torchrun(*command: str) -> subprocess.CompletedProcess[str]:
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    return subprocess.run(
        [*launch, *command], capture_output=True, text=True, env={**os.environ, **QUIET}
    )


@pytest.mark.parametrize(
    ("command", "sharding"),
    [("multiverse_trainer", {}), ("tests.bench.fsdp2", {"fsdp": True, "cpu": False})],
)
def test_two_processes_see_the_losses_of_one(
    command: str, sharding: dict[str, Any], data: Path, reference: Path, tmp_path: Path
) -> None:
    """Each with a copy of the weights, and each with half of them."""
    output = tmp_path / "out"
    config = write_config(data, output, rows=1, **sharding)  # of the reference's two
    done = torchrun("-m", command, "--config", str(config))
    assert done.returncode == 0, done.stderr[-2000:]
    found, due = losses(output), losses(reference)
    assert found.keys() == due.keys()
    for step, loss in due.items():
        assert found[step] == pytest.approx(loss, abs=1e-4)
    if sharding:
        held, whole = json.loads(done.stdout.strip().splitlines()[-1])["shard"]
        assert held == pytest.approx(whole / 2, rel=0.01)
    a, b = (load_file(path / "model" / "model.safetensors") for path in (output, reference))
    assert a.keys() == b.keys()
