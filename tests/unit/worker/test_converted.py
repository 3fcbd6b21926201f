"""The cache of converted weights: found again, made anew by a new converter, kept small."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from multiverse_worker.models import converted as module
from multiverse_worker.models.converted import converted
from multiverse_worker.models.directory import ModelDirectory
from tests.unit.worker.llamas import save_llama


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelDirectory:
    return save_llama(tmp_path_factory.mktemp("llama"), num_hidden_layers=1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's cache is."""
    monkeypatch.setattr(module, "user_cache_path", lambda name: tmp_path / name)
    return tmp_path / "multiverse" / "gguf"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_weights_are_converted_once_for_each_type(model: ModelDirectory, folder: Path) -> None:
    first = converted(model, "d", "f32")
    made = first.stat().st_mtime_ns
    assert converted(model, "d", "q8_0") != first
    assert converted(model, "d", "f32") == first
    assert first.stat().st_mtime_ns == made
    assert len(names(folder)) == 2


def test_a_changed_converter_converts_again_and_removes_what_the_old_one_made(
    model: ModelDirectory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = {converted(model, "d", kind) for kind in ("f32", "f16")}
    other = converted(model, "other", "f32")
    (folder / "d-f16.gguf").write_bytes(b"of a time without versions")
    monkeypatch.setattr(module, "CONVERTER_VERSION", 1_000)
    new = converted(model, "d", "f32")
    assert new not in old
    assert names(folder) == {new.name, other.name}


def test_dead_conversions_are_removed_and_running_ones_are_not(
    model: ModelDirectory, folder: Path
) -> None:
    folder.mkdir(parents=True)
    dead, running = folder / ".d-f32-v0.gguf.1-a.part", folder / ".d-f32-v0.gguf.2-b.part"
    for path in (dead, running):
        path.write_bytes(b"")
    long_ago = time.time() - 2 * 3600
    os.utime(dead, (long_ago, long_ago))
    target = converted(model, "d", "f32")
    assert names(folder) == {target.name, running.name}
