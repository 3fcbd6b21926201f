"""One tiny random Llama for all tests here, and engines over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import export_gguf
from tests.integration.worker.engines import OpenEngine, make_engine
from tests.integration.worker.served import TOKENIZER, Worker, serving
from tests.unit.worker.client import AnyEngine, Client
from tests.unit.worker.llamas import load_llama, save_llama


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelDirectory:
    torch.set_num_threads(1)
    return save_llama(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def weights(model: ModelDirectory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    export_gguf(model, target, "f32")
    return target


@pytest.fixture(scope="session")
def llama(model: ModelDirectory) -> LlamaForCausalLM:
    """The same model in transformers."""
    return load_llama(model)


@pytest.fixture
def engine_name() -> str:
    """Which engine a test runs with, unless it is marked `any_engine`."""
    return "llamacpp"


@pytest.fixture
def open_engine(engine_name: str, weights: Path) -> Iterator[OpenEngine]:
    """Opens engines, and closes them after the test."""
    engines: list[AnyEngine] = []

    def opened(**options: Any) -> AnyEngine:
        engines.append(make_engine(engine_name, weights, **options))
        return engines[-1]

    yield opened
    for engine in engines:
        engine.close()


@pytest.fixture
def engine(open_engine: OpenEngine) -> AnyEngine:
    return open_engine()


@pytest.fixture
def client(engine: AnyEngine) -> Client:
    return Client(engine)


@pytest.fixture
def served_model(model: ModelDirectory, tmp_path: Path) -> ModelDirectory:
    """The tiny model with text files of several chunks, and of none."""
    directory = tmp_path / "served"
    directory.mkdir()
    for name in ("config.json", "multiverse.json"):
        (directory / name).write_bytes((model.path / name).read_bytes())
    (directory / "tokenizer.json").write_bytes(TOKENIZER)
    (directory / "chat_template.jinja").write_bytes(b"")
    return ModelDirectory(directory)


@pytest.fixture
async def worker(
    engine_name: str, weights: Path, served_model: ModelDirectory
) -> AsyncIterator[Worker]:
    async with serving(engine_name, weights, served_model) as worker:
        yield worker
