"""Stands in for the CUDA kernel package that SGLang imports; no kernel is called on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__version__ = "0.0.0"


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.{name} was called, and there is no GPU")

    return missing
