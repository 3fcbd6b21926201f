"""The engines that the suite can run, in the exact configuration (F32)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from multiverse_worker.contract import Engine
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.engines.llamacpp.library import LibraryOptions
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import export_gguf

KV_CELLS = 32768


def llamacpp(directory: Path, scratch: Path, threads: int) -> Engine:
    """The model directory needs no tokenizer here: stand-ins are put where one is missing."""
    for name in ("tokenizer.json", "multiverse.json"):
        if not (directory / name).exists():
            (directory / name).write_text("{}")
    gguf = scratch / "model.gguf"
    export_gguf(ModelDirectory(directory), gguf, "f32")
    options = LibraryOptions(
        gguf,
        kv_cells=KV_CELLS,
        sequences=256,
        threads=threads,
        kv_type="f32",
        flash_attention=False,
    )
    return LlamaCppEngine(options, namespace="conformance")


ENGINES: dict[str, Callable[[Path, Path, int], Engine]] = {"llamacpp": llamacpp}
