"""Whether this SGLang is the one the plugin was written for, set up so that it can serve.

SGLang only logs a hook that fails to apply, so the plugin looks for itself and refuses.
"""

from __future__ import annotations

import inspect
import pkgutil
from typing import Any

import sglang
from sglang.srt.plugins.hook_registry import HookRegistry
from sglang.srt.runtime_context import get_parallel

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.engines.sglang.cache import ContextCache
from multiverse_worker.engines.sglang.hooks import TARGETS

VERSION = "0.5.23"


def check_hooks() -> None:
    """Version, signatures, and that every hook is in place."""
    if sglang.__version__ != VERSION:
        raise InvalidRequest(
            f"SGLang is {sglang.__version__}; install sglang=={VERSION}", field="sglang"
        )
    for target, _, _, expected in TARGETS:
        if target not in HookRegistry._patched:
            raise InvalidRequest(
                f"the hook on {target} was not applied; is SGLANG_PLUGINS set without "
                '"multiverse", or does another plugin replace the target?',
                field="sglang",
            )
        holder, name = target.rsplit(".", 1)
        function = inspect.getattr_static(pkgutil.resolve_name(holder), name)
        function = getattr(function, "__func__", function)
        names = tuple(inspect.signature(function).parameters)[: len(expected)]
        if names != expected:
            raise InvalidRequest(
                f"{target} takes {names}, not {expected}; install sglang=={VERSION} unmodified",
                field="sglang",
            )


def check_scheduler(scheduler: Any) -> None:
    """Options under which stitched contexts would be wrong."""
    arguments = scheduler.server_args
    refusals = {
        "--radix-cache-backend must be multiverse": not isinstance(
            scheduler.tree_cache, ContextCache
        ),
        "--page-size must be 1: paths end anywhere": scheduler.page_size != 1,
        "--disable-radix-cache must not be set: a join reuses KV": scheduler.tree_cache.disable,
        "--speculative-algorithm must not be set": not scheduler.spec_algorithm.is_none(),
        "--disaggregation-mode must be null": arguments.disaggregation_mode != "null",
        "--pp-size must be 1": get_parallel().pp_size != 1,
        "--enable-dp-attention must not be set": bool(arguments.enable_dp_attention),
        "--scheduler-recv-interval must be 1": scheduler.request_receiver.recv_skipper is not None,
        "--enable-priority-scheduling must not be set": bool(scheduler.enable_priority_scheduling),
        "the model must have no sliding window": bool(scheduler.is_hybrid_swa),
        "the model must have no recurrent state": bool(scheduler.is_hybrid_ssm),
    }
    if arguments.enable_hierarchical_cache:
        refusals |= _hierarchical(arguments, scheduler.tree_cache)
    broken = [remedy for remedy, wrong in refusals.items() if wrong]
    if broken:
        raise InvalidRequest("SGLang can't serve branches so: " + "; ".join(broken), field="sglang")


def _hierarchical(arguments: Any, cache: Any) -> dict[str, bool]:
    """HiCache, of which only the host pool is used for branches."""
    return {
        "--hicache-storage-backend must not be set: use tier_url": (
            arguments.hicache_storage_backend is not None
        ),
        "--hicache-host-memory-mode must be cache: prompts stay there": (
            arguments.hicache_host_memory_mode != "cache"
        ),
        "--enable-hierarchical-cache must not be set: the KV of this model, or its pool, can't be "
        "copied to the host by slot": isinstance(cache, ContextCache) and not cache.copies_by_slot,
    }
