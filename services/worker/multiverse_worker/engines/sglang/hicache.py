"""SGLang's HiCache as the store of prompts: its host pool, and the radix tree that finds them.

Prompts are copied from the slots of contexts to the host and back. Nothing of them lies in the
part of the pool that the public tree has, so SGLang's accounting of it is as ever. Every rank
does the same in the same order; what fails on one is given up on all.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.managers.cache_controller import CacheOperation
from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams
from sglang.srt.mem_cache.radix_cache import RadixKey

from multiverse_shared.keys import CHUNK
from multiverse_worker.contract import Ids
from multiverse_worker.engines.sglang.prompts import PromptStore

_logger = logging.getLogger(__name__)
_NO_HASH = "0" * 64  # hashes name what is in a storage backend: there is none
_NAMES = "multiverse:"  # begins the extra keys of prompts: apart from SGLang's own requests


class HiCache(PromptStore):
    """`cache` is the public tree, and gives slots."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._controller = cache.cache_controller
        self._pool = cache.cache_controller.mem_pool_host

    def keep(self, owner: str, ids: Ids, slots: torch.Tensor) -> int:
        key = _key(owner, ids)
        node, held = self._find(key)
        lacking = len(ids) - held
        if not lacking or lacking > self._pool.size:
            return 0
        lock = self._cache.inc_host_lock_ref(node).to_dec_params()
        try:
            places = self._take(lacking)
            if places is None:
                return 0
            if not self._copied(self._out, places, slots[held:]):
                self._pool.free(places)
                return 0
            self._add(node, key[held:], places)
        finally:
            self._cache.dec_host_lock_ref(node, lock)
        return lacking

    def restore(self, owner: str, ids: Ids, first: int) -> torch.Tensor | None:
        node, held = self._find(_key(owner, ids))
        if held - first < CHUNK:
            return None
        lock = self._cache.inc_host_lock_ref(node).to_dec_params()
        try:
            transfer, _ = self._cache.tree_core.build_load_back_spec(node)
            places = transfer.host_indices
            if len(places) != held:  # SGLang's own requests have a part of it in the pool
                return None
            slots: torch.Tensor | None = self._cache.take_slots(held - first)
            if slots is not None and not self._copied(self._in, places[first:], slots):
                self._cache.token_to_kv_pool_allocator.free(slots)
                return None
            return slots
        finally:
            self._cache.dec_host_lock_ref(node, lock)

    # -- the tree ------------------------------------------------------------------------------

    def _find(self, key: RadixKey) -> tuple[Any, int]:
        """The last node of a text in the public tree, and how much of the text is there."""
        found = self._cache.match_prefix(MatchPrefixParams(key=key))
        return found.best_match_node, found.device_prefix_len + found.host_hit_length

    def _take(self, tokens: int) -> torch.Tensor | None:
        """Places in the host pool; None: the rest is in use."""
        lacking = tokens - self._pool.available_size()
        if lacking > 0:
            self._cache.evict_host(lacking)
        places: torch.Tensor | None = self._pool.alloc(tokens)
        return places

    def _add(self, node: Any, key: RadixKey, places: torch.Tensor) -> None:
        """Hang what has been copied under `node`."""
        tree = self._cache.tree_core
        added = tree.insert_host(node, key, places, [_NO_HASH] * len(key))
        self._cache._apply_cache_actions(added.cache_actions)
        self._pool.free(places if added.host_insert_dropped else places[: added.prefix_len])

    # -- copies --------------------------------------------------------------------------------

    def _copied(
        self,
        copy: Callable[[torch.Tensor, torch.Tensor], Any],
        places: torch.Tensor,
        slots: torch.Tensor,
    ) -> bool:
        """Copy, and wait for it; whether it was done on all ranks."""
        done = torch.ones(1, dtype=torch.int64)
        try:
            copy(places, slots).finish_event.synchronize()
        except Exception:
            _logger.exception("HiCache could not copy %d tokens; they are computed", len(slots))
            done.zero_()
        self._cache._all_reduce_attn_groups(done, torch.distributed.ReduceOp.MIN)
        return bool(done.item())

    def _out(self, places: torch.Tensor, slots: torch.Tensor) -> Any:
        controller, engine = self._controller, self._controller.l2_transfer_engine
        if controller.write_fence_stream is not None:  # a step under way may write the last slot
            engine.device_to_host_stream.wait_stream(controller.write_fence_stream)
        moved = controller._move_write_operation(CacheOperation(places, slots, node_id=-1))
        return engine.submit_device_to_host(controller._l2_transfers(*moved))

    def _in(self, places: torch.Tensor, slots: torch.Tensor) -> Any:
        controller, engine = self._controller, self._controller.l2_transfer_engine
        if controller.load_fence_stream is not None:  # it may still write to what was just freed
            engine.host_to_device_stream.wait_stream(controller.load_fence_stream)
        moved = controller._move_op_indices(CacheOperation(places, slots, node_id=-1))
        return engine.submit_host_to_device(
            controller._l2_load_transfers(*moved),
            transfer_layer_id_max=controller.transfer_layer_id_max,
        )


def _key(owner: str, ids: Ids) -> RadixKey:
    return RadixKey(array("q", ids), extra_key=_NAMES + owner)
