"""The small trainings that leave one thing out, from random weights to a checked model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multiverse_trainer.tiny.ablation import check, train
from multiverse_trainer.tiny.tasks import Level
from tests.unit.trainer.rows import TINY

# What transformers and its Trainer warn of is theirs.
pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore")]
RENDERINGS = ("parallel", "sequential")


@pytest.mark.parametrize(
    ("name", "layouts", "families"),
    [
        ("published", ["leak", "served", "drift"], {"eval", "test", "nested"}),
        ("half-twin", ["served"], {"eval", "test"}),
    ],
)
def test_a_training_is_made_and_checked_on_every_family(
    name: str,
    layouts: list[str],
    families: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MULTIVERSE_TRAIN_MAX_STEPS", "1")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", "")  # the run sets it
    model = train(name, tmp_path, 24, 0)
    rows = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text("utf-8").splitlines()]
    assert {row["provenance"]["source"].partition("/")[2] for row in rows} == families
    found = check(name, model, 12)
    assert list(found) == layouts
    due = {f"{f}/{r}" for f in ("eval", "test", "nested") for r in RENDERINGS} | set(RENDERINGS)
    assert all(set(scores) == due for scores in found.values())
    assert train(name, tmp_path, 24, 0) == model  # nothing is left to do
    with pytest.raises(SystemExit, match="other records"):
        train(name, tmp_path, 25, 0)


def test_a_second_stage_goes_on_from_the_first_with_long_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTIVERSE_TRAIN_MAX_STEPS", "1")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", "")
    model = train("ours", tmp_path, 12, 0, long_count=12)
    assert model == tmp_path / "run-long" / "model"
    settings = json.loads((tmp_path / "run-long" / "settings.json").read_text("utf-8"))
    assert settings["model"] == str(tmp_path / "run" / "model")
    assert settings["max_tokens"] == 1024  # long tasks are not cut
    lines = (tmp_path / "run-long.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"tiny-0-long-{n}" for n in range(12)]
    assert train("ours", tmp_path, 12, 0, long_count=12) == model


def test_a_third_stage_goes_on_from_the_second_with_wide_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MULTIVERSE_TRAIN_MAX_STEPS", "1")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", "")
    model = train("ours", tmp_path, 12, 0, long_count=12, wide_count=12)
    assert model == tmp_path / "run-wide" / "model"
    settings = json.loads((tmp_path / "run-wide" / "settings.json").read_text("utf-8"))
    assert settings["model"] == str(tmp_path / "run-long" / "model")
    lines = (tmp_path / "run-wide.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"tiny-0-wide-{n}" for n in range(12)]


@pytest.mark.parametrize("level", [Level.LONG, Level.WIDE])
def test_the_committed_model_does_long_and_wide_tasks_too(level: Level) -> None:
    found = check("twin", TINY, 24, level)
    assert min(found["served"]["parallel"], found["served"]["sequential"]) >= 0.9


def test_drifting_positions_touch_parallel_tasks_only() -> None:
    found = check("ours", TINY, 24)
    assert list(found) == ["served", "drift"]
    assert found["served"]["parallel"] >= 0.9
    assert found["drift"]["sequential"] == found["served"]["sequential"]
