"""From a model directory and settings to a running llama.cpp engine."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_cache_path

from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.engines.llamacpp.library import LibraryOptions
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import export_gguf
from multiverse_worker.settings import WorkerSettings


def launch(model: ModelDirectory, settings: WorkerSettings) -> LlamaCppEngine:
    """Convert the weights if that was not done before, and load them."""
    digest = model.weights_digest
    options = LibraryOptions(
        model=_converted(model, digest, settings.weight_type),
        kv_cells=settings.kv_cells,
        sequences=settings.sequences,
        batch_tokens=settings.batch_tokens,
        threads=settings.threads,
        kv_type=settings.kv_type,
        flash_attention=settings.flash_attention,
    )
    return LlamaCppEngine(options, namespace=f"{digest}/{settings.weight_type}")


def _converted(model: ModelDirectory, digest: str, weight_type: str) -> Path:
    """The GGUF of these weights in the user's cache folder; made when it is not there."""
    target = user_cache_path("multiverse") / "gguf" / f"{digest}-{weight_type}.gguf"
    if not target.is_file():
        export_gguf(model, target, weight_type)
    return target
