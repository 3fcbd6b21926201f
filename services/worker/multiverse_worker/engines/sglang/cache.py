"""SGLang's radix cache with the context tree beside it: every KV slot is free, a running
request's, the public tree's or the context tree's, and SGLang's own accounting adds up.

Plain requests use the public tree as ever. The requests of branches (`request.multiverse` is
their stage) take their prefix from the context tree and leave their KV to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import FINISH_ABORT
from sglang.srt.mem_cache.base_prefix_cache import (
    DecLockRefParams,
    EvictParams,
    EvictResult,
    MatchResult,
    TreeLock,
)
from sglang.srt.mem_cache.registry import create_unified_radix_cache
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.engines.sglang.stage import Stage


def stage_of(request: Any) -> Stage | None:
    """The stage that an SGLang request computes; None: a plain request."""
    return getattr(request, "multiverse", None)


@dataclass
class _Row:
    """A row of the request pool, given back as if it were a request."""

    kv: Any


class ContextCache(UnifiedRadixCache):
    """`on_computed` is told of each stage whose KV has come into `contexts`, `on_leaving` of the
    end of each prompt that is evicted for room, `on_reset` that all contexts are about to be
    forgotten: nothing may hold one then."""

    def __init__(self, params: Any) -> None:
        self.contexts = KvTree()
        self.on_computed: Callable[[Stage, Node], None] = lambda stage, node: None
        self.on_leaving: Callable[[Node], None] = lambda prompt: None
        self.on_reset: Callable[[], None] = lambda: None
        super().__init__(params)

    # -- prefix of a request -------------------------------------------------------------------

    def match_prefix(self, params: Any) -> Any:
        stage = stage_of(params.req)
        if stage is None:
            return super().match_prefix(params)
        stage.advance(self.contexts)
        node = stage.parent
        return MatchResult(
            device_prefix_len=node.length,
            last_device_node=node,
            last_host_node=node,
            best_match_node=node,
            cache_protected_len=node.length,
        )

    def prefix_device_indices(self, req: Any) -> torch.Tensor:
        if isinstance(req.last_node, Node):
            return self.contexts.row(req.last_node).to(self.token_to_kv_pool_allocator.device)
        return super().prefix_device_indices(req)

    def lock(self, node: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(node, Node):
            self.contexts.lock(node)
            return TreeLock(node, DecLockRefParams())
        return super().lock(node, *args, **kwargs)

    def unlock(self, lock: Any) -> None:
        if lock is not None and isinstance(lock.node, Node):
            self.contexts.unlock(lock.node)
        else:
            super().unlock(lock)

    # -- end of a request ----------------------------------------------------------------------

    def claim_kv_row(self, req: Any) -> bool:
        """Take over what a stage has computed; a retracted or aborted one is freed as ever."""
        stage = stage_of(req)
        if stage is None:
            return bool(super().claim_kv_row(req))
        if not req.finished() or isinstance(req.finished_reason, FINISH_ABORT):
            return False
        kv = req.detach_kv()
        first = stage.parent.length
        assert kv.cache_protected_len == first, "the prefix is what was matched"
        ids = stage.ids + stage.branch.kept[stage.first_draw :] if stage.decodes else stage.ids
        # With overlap the last token's KV is on its way; without it the tail computes it.
        held = min(first + len(ids), kv.kv_committed_len)
        row = self.req_to_token_pool.req_to_token[kv.req_pool_idx, : kv.kv_allocated_len].long()
        allocator = self.token_to_kv_pool_allocator
        node, duplicates = self.contexts.insert(
            stage.parent, ids[: held - first], stage.start, row[first:held].clone()
        )
        allocator.free(duplicates)
        allocator.free(row[held:].clone())
        self.req_to_token_pool.free(_Row(kv))
        self.on_computed(stage, node)
        self.unlock(req.lock)
        req.lock = None
        return True

    # -- host ----------------------------------------------------------------------------------

    @property
    def copies_by_slot(self) -> bool:
        """With HiCache: whether a slot has one place in the host, which holds all of its KV."""
        return bool(
            self.supports_retraction_backup()
            and not self.sidecar_pool_specs
            and not self.cache_controller.is_kv_sharded
            and self.host_pool_group.anchor_entry.host_pool.shared_allocation_domain is None
        )

    # -- room ----------------------------------------------------------------------------------

    def evictable_size(self) -> int:
        return int(super().evictable_size()) + self.contexts.evictable

    def protected_size(self) -> int:
        return int(super().protected_size()) + self.contexts.locked

    def evict(self, params: Any) -> Any:
        freed = self._evict_contexts(params.num_tokens)
        result = super().evict(_less(params, freed))
        result.num_tokens_evicted += freed
        return result

    def evict_for_alloc(self, params: Any, **kwargs: Any) -> Any:
        freed = self._evict_contexts(params.num_tokens)
        if freed >= params.num_tokens:
            return EvictResult(num_tokens_evicted=freed)
        result = super().evict_for_alloc(_less(params, freed), **kwargs)
        result.num_tokens_evicted += freed
        return result

    def take_slots(self, tokens: int) -> torch.Tensor | None:
        """[tokens] slots that are the caller's; None: not even with all idle KV evicted."""
        allocator = self.token_to_kv_pool_allocator
        lacking = tokens - allocator.available_size()
        if lacking > self.evictable_size():
            return None
        if lacking > 0:
            self.evict(EvictParams(num_tokens=lacking))
        slots: torch.Tensor | None = allocator.alloc(tokens)
        return slots

    def _evict_contexts(self, tokens: int) -> int:
        if tokens <= 0 or not self.contexts.evictable:
            return 0
        slots = self.contexts.evict(tokens, self.on_leaving)
        self.token_to_kv_pool_allocator.free(slots)
        return len(slots)

    def drop_idle(self) -> None:
        """Evict all that nothing rests on."""
        slots = self.contexts.evict(self.contexts.evictable)
        if len(slots):
            self.token_to_kv_pool_allocator.free(slots)
        idle = int(super().evictable_size())
        if idle:
            super().evict(EvictParams(num_tokens=idle))
        if self.host_pool_group:
            self.evict_host(self.host_pool_group.size)

    def reset(self) -> None:
        """SGLang flushes its pools when nothing runs: every slot is free again."""
        self.on_reset()
        self.contexts.clear()
        super().reset()


def _less(params: Any, freed: int) -> Any:
    return EvictParams(
        num_tokens=max(0, params.num_tokens - freed),
        swa_num_tokens=params.swa_num_tokens,
        mamba_num=params.mamba_num,
    )


def build(context: Any) -> Any:
    """The factory behind `--radix-cache-backend multiverse`."""
    return create_unified_radix_cache(context, cache_class=ContextCache)
