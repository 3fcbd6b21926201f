"""scripts/smollm2.py, on a small file of the same kind: the directory is the model of the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from multiverse_shared.dialect import load_dialect
from multiverse_shared.grammar import Grammar
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_worker.contract import Logits
from multiverse_worker.engines.llamacpp.library import Library, LibraryOptions
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import export_gguf
from tests.unit.worker.ggufs import TOKENS, write_gguf

SCRIPT = Path(__file__).parents[3] / "scripts" / "smollm2.py"
IDS = [int(index) for index in np.random.default_rng(0).integers(0, 95, 24)]


def logits_of(weights: Path) -> Logits:
    library = Library(LibraryOptions(weights, 256, 2, 64, 1, "f32", False))
    rows = library.compute(IDS, list(range(24)), [0] * 24, [True] * 24)
    library.close()
    return np.stack(rows)


def test_the_directory_is_the_model_of_the_file_with_tags(tmp_path: Path) -> None:
    tokens = ["a", "b", "ab", *TOKENS[3:]]
    source, out = write_gguf(tmp_path / "source.gguf", tokens=tokens), tmp_path / "model"
    command = [sys.executable, SCRIPT, "--gguf", source, "--out", out]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    model = ModelDirectory(out)
    export_gguf(model, tmp_path / "again.gguf", "f32")
    again = logits_of(tmp_path / "again.gguf")
    assert again.shape[1] == len(tokens) + len(load_dialect("multiverse").tags)
    difference = np.abs(again[:, : len(tokens)] - logits_of(source)).max()
    assert 0 < difference < 0.05  # safetensors are F16
    tokenizer = TextTokenizer.from_directory(out)
    Grammar.bind(load_dialect("multiverse"), tokenizer)
    assert tokenizer.encode("ab") == [2]
    assert tokenizer.token_id("<end>") == 95
