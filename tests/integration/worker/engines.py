"""Engines over the tiny model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from multiverse_worker.engines.llamacpp.library import LibraryOptions


class OpenEngine(Protocol):
    def __call__(self, **options: Any) -> LlamaCppEngine: ...


def make_engine(
    weights: Path, clock: Callable[[], float] = lambda: 0.0, **options: Any
) -> LlamaCppEngine:
    """F32 cells and no flash attention, so that results are exact."""
    defaults: dict[str, Any] = {"kv_cells": 1024, "sequences": 16, "batch_tokens": 64}
    exact: dict[str, Any] = {"kv_type": "f32", "flash_attention": False, "threads": 1}
    return LlamaCppEngine(
        LibraryOptions(weights, **{**defaults, **exact, **options}), "tiny", clock
    )
