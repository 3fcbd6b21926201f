"""HiCache on a CPU: its copies as plain indexing, which a test may spoil while the engine runs.

SGLang's own copies are CUDA kernels into pinned memory. The variable names a file that says what
happens to copies "in" or "out" of the pool: "break in", or "blur in", by which all tokens get the
KV of one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

SPOILT_VARIABLE = "MULTIVERSE_TEST_HICACHE"


def run_scheduler(*args: Any, **kwargs: Any) -> None:
    """In place of SGLang's own function for its scheduler processes."""
    from sglang.srt.managers.scheduler import run_scheduler_process

    install()
    run_scheduler_process(*args, **kwargs)


def install() -> None:
    from sglang.srt.mem_cache.pool_host import base, common, mha

    common.ALLOC_MEMORY_FUNCS["cpu"] = _allocate
    mha.transfer_kv_direct = _copy
    make = base.HostKVCache.__init__

    def unpinned(pool: Any, **kwargs: Any) -> None:
        make(pool, **{**kwargs, "pin_memory": False})

    base.HostKVCache.__init__ = unpinned


def _allocate(dims: Any, dtype: torch.dtype, device: str, *args: Any, **kwargs: Any) -> Any:
    return torch.zeros(dims, dtype=dtype, device=device)


def _copy(
    src_layers: Sequence[torch.Tensor],
    dst_layers: Sequence[torch.Tensor],
    src_indices: torch.Tensor,
    dst_indices: torch.Tensor,
    page_size: int,
) -> None:
    way = "in" if len(src_layers) == 2 else "out"  # K and V of one layer come in at once
    harm = Path(os.environ[SPOILT_VARIABLE]).read_text()
    if harm == f"break {way}":
        raise RuntimeError("the copy broke off")
    if harm == f"blur {way}":
        src_indices = src_indices[:1].expand(len(src_indices))
    for source, target in zip(src_layers, dst_layers, strict=True):
        target[dst_indices.long()] = source[src_indices.long()]
