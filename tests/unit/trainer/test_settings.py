"""Settings: preset, file, environment and options, the later one wins; estimates before a start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from multiverse_shared.errors import InvalidRequest
from multiverse_trainer.batches.curriculum import PUBLISHED_SHARES
from multiverse_trainer.recipe.estimate import Work, estimate, matmul_speed
from multiverse_trainer.recipe.presets import PRESETS
from multiverse_trainer.recipe.settings import TrainSettings, load_settings

PLACES = {"model": Path("m"), "data": [Path("d.jsonl")], "output": Path("o")}


def test_the_later_source_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("preset: 7b\nmodel: m\ndata: [d.jsonl]\noutput: o\nseed: 1\nrows: 2\nclip: 3\n")
    monkeypatch.setenv("MULTIVERSE_TRAIN_ROWS", "4")
    monkeypatch.setenv("MULTIVERSE_TRAIN_CLIP", "5")
    settings = load_settings(file, clip=7.0)
    assert settings.max_tokens == 32768  # preset
    assert (settings.seed, settings.rows, settings.clip) == (1, 4, 7.0)


def test_everything_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PRESET": "32b",
        "MODEL": "m",
        "DATA": '["a.jsonl", "b.parquet"]',
        "OUTPUT": "o",
        "SHARES": "[0.5, 1]",
    }.items():
        monkeypatch.setenv(f"MULTIVERSE_TRAIN_{name}", value)
    settings = load_settings()
    assert settings.fsdp
    assert settings.shares == [0.5, 1.0]
    assert settings.data == [Path("a.jsonl"), Path("b.parquet")]


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_preset_is_a_valid_set_of_settings(preset: str) -> None:
    settings = load_settings(**PLACES, preset=preset)
    again = TrainSettings.model_validate_json(settings.model_dump_json())
    assert again == settings
    if preset in ("7b", "32b"):
        assert settings.learning_rate == 1e-5
        assert tuple(settings.shares) == PUBLISHED_SHARES


@pytest.mark.parametrize(
    ("content", "field"),
    [("rows: 0", "rows"), ("preset: 8b", "preset"), ("rowz: 1", "rowz"), ("shares: [2]", "shares")],
)
def test_a_wrong_setting_is_named(tmp_path: Path, content: str, field: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(content)
    with pytest.raises(InvalidRequest) as caught:
        load_settings(file, **PLACES)
    assert (caught.value.field or "").startswith(field)


@pytest.mark.parametrize(
    "together",
    [{"preset": "tiny", "lora_rank": 4}, {"preset": "7b", "cpu": True}],
)
def test_settings_that_do_not_go_together_are_refused(together: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"lora_rank|cpu"):
        load_settings(**PLACES, **together)


@pytest.mark.parametrize("content", ["a: [", "3", None])
def test_a_file_that_holds_no_settings_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "c.yaml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InvalidRequest, match=r"c\.yaml"):
        load_settings(file, **PLACES)


def test_the_estimate_follows_from_the_sizes() -> None:
    work = Work(
        parameters=1000,
        trained=1000,
        layers=2,
        hidden=10,
        vocabulary=50,
        tokens=600,
        steps=3,
        row_tokens=100,
        processes=2,
        sharded=True,
        checkpointing=False,
        compute_bytes=4,
    )
    needed = estimate(work, flops=1e6)
    assert needed.weights == 4 * 1000 // 2
    assert needed.optimiser == 12 * 1000 // 2
    assert needed.logits == 100 * 50 * 12
    dense, attention = 6 * 1000 * 600, 6 * 2 * 2 * 10 * 100 * 600 // 2
    assert needed.seconds == pytest.approx((dense + attention) / (1e6 * 0.4 * 2))
    assert matmul_speed(torch.device("cpu"), torch.float32) > 1e8
