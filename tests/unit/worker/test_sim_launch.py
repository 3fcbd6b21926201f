"""From settings and a directory without weights to a simulator that speaks its dialect."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from multiverse_shared.errors import InvalidModel, InvalidRequest
from multiverse_worker.engines.sim.launch import answer_style, launch
from multiverse_worker.models.directory import TEXT_FILES, ModelDirectory
from multiverse_worker.settings import WorkerSettings
from tests.unit.worker.client import Client, text

TINY = Path(__file__).parents[3] / "models" / "multiverse-tiny"
EOS = 2


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in TEXT_FILES:
        shutil.copy(TINY / name, tmp_path)
    return tmp_path


def launched(directory: Path, **settings: Any) -> Client:
    named = WorkerSettings(model=directory, engine="sim", sim_speed=0, **settings)
    return Client(launch(ModelDirectory(directory, has_weights=False), named))


def test_an_answer_ends_with_the_end_of_sequence_of_the_model(directory: Path) -> None:
    client = launched(directory, sim_answers="plain", sim_path_tokens="5")
    assert client.run(text(40, 41), max_tokens=6).ids[-1] == EOS


def test_the_end_of_sequence_may_be_named_by_the_tokenizer(directory: Path) -> None:
    (directory / "generation_config.json").unlink()
    client = launched(directory, sim_answers="plain", sim_path_tokens="5")
    assert client.run(text(40, 41), max_tokens=6).ids[-1] == EOS


def test_a_model_without_an_end_of_sequence_is_refused(directory: Path) -> None:
    (directory / "generation_config.json").unlink()
    (directory / "tokenizer_config.json").write_text(json.dumps({}))
    with pytest.raises(InvalidModel, match="eos_token_id"):
        launched(directory)


def test_sizes_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PATHS": "3-9", "DEPTH": "2", "PATH_TOKENS": "40"}.items():
        monkeypatch.setenv(f"MULTIVERSE_WORKER_SIM_{name}", value)
    drawn = answer_style(WorkerSettings(model=TINY)).distribution
    assert (drawn.paths, drawn.depth, drawn.path) == ((3, 9), 2, (40, 40))


@pytest.mark.parametrize("value", ["8-2", "many", "2-", "-3"])
def test_a_range_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MULTIVERSE_WORKER_SIM_PATHS", value)
    with pytest.raises(ValidationError, match="sim_paths") as refusal:
        WorkerSettings(model=TINY)
    assert "2-8" in str(refusal.value)


def test_an_unknown_machine_is_named_with_those_that_are_known(directory: Path) -> None:
    with pytest.raises(InvalidRequest, match="qwen32b") as refusal:
        launched(directory, sim_machine="abacus")
    assert refusal.value.field == "sim_machine"


def test_only_the_simulator_runs_more_branches_at_once_than_llama_cpp_has_sequences() -> None:
    assert WorkerSettings(model=TINY, engine="sim", sequences=1000).sequences == 1000
    with pytest.raises(ValidationError, match="256"):
        WorkerSettings(model=TINY, sequences=257)
