"""From a model directory and settings to a running llama.cpp engine."""

from __future__ import annotations

import logging

from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.engines.llamacpp.library import LibraryOptions
from multiverse_worker.engines.llamacpp.model import vocabulary
from multiverse_worker.models.converted import converted
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.tokens import check_tokens
from multiverse_worker.settings import WorkerSettings
from multiverse_worker.tier.launch import launch_transfer

log = logging.getLogger(__name__)


def launch(model: ModelDirectory, settings: WorkerSettings) -> LlamaCppEngine:
    """Convert the weights if that was not done before, and load them."""
    digest = model.weights_digest
    if model.gguf and "weight_type" in settings.model_fields_set:
        log.warning("weight_type is ignored: %s keeps its own types", model.gguf)
    weights = model.gguf or converted(model, digest, settings.weight_type)
    check_tokens(model, vocabulary(weights))
    options = LibraryOptions(
        model=weights,
        kv_cells=settings.kv_cells,
        sequences=settings.sequences,
        batch_tokens=settings.batch_tokens,
        threads=settings.threads,
        kv_type=settings.kv_type,
        flash_attention=settings.flash_attention,
        transfers=bool(settings.tier_url),
        idle_cells=settings.idle_cells,
    )
    kind = "gguf" if model.gguf else settings.weight_type
    transfer = launch_transfer(settings)
    try:
        return LlamaCppEngine(options, namespace=f"{digest}/{kind}", transfer=transfer)
    except BaseException:
        if transfer.tier:
            transfer.tier.close()
        raise
