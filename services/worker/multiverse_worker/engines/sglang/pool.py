"""SGLang's KV pool, by slot: what is in it goes out and comes in as bytes.

Bytes are those of each layer's K of all tokens, then its V, as the pool stores them. They are
copied by SGLang's own `get_cpu_copy` and `load_cpu_copy`, which wait for what is launched on
the device, so what is read has been computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.engines.sglang.slots import Slots


def check_tier(ranks: int) -> None:
    """InvalidRequest when several ranks hold parts of the KV: they would have to agree on what
    has come."""
    if ranks != 1:
        raise InvalidRequest(
            "tier_url needs tensor_parallel 1, for each GPU holds a part of the KV: "
            "leave one of them out",
            field="tier_url",
        )


class PoolSlots(Slots):
    """`cache` evicts. To be checked before it is read or written."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._allocator = cache.token_to_kv_pool_allocator
        self._forms: list[list[torch.Tensor]] = []  # one token of each part of each layer
        self.token_bytes = 0

    def check(self) -> None:
        """InvalidRequest when the pool of this model can't be copied by slot."""
        try:
            for layer in self._allocator.get_cpu_copy(torch.zeros(1, dtype=torch.int64)):
                (parts,) = layer
                if not isinstance(parts, list):
                    raise TypeError("it has no K and V")
                self._forms.append([part[0] for part in parts])
        except (AssertionError, NotImplementedError, TypeError, ValueError) as error:
            raise InvalidRequest(
                f"the tier can't send or take the KV of this model by slot ({error}); "
                "leave tier_url out",
                field="tier_url",
            ) from error
        self.token_bytes = sum(part.nbytes for layer in self._forms for part in layer)

    def take(self, tokens: int) -> torch.Tensor | None:
        slots: torch.Tensor | None = self._cache.take_slots(tokens)
        return slots

    def give(self, slots: torch.Tensor) -> None:
        self._allocator.free(slots)

    def read(self, slots: torch.Tensor) -> bytes:
        return b"".join(
            _bytes(part) for (parts,) in self._allocator.get_cpu_copy(slots) for part in parts
        )

    def write(self, raw: bytes, tokens: int, slots: torch.Tensor) -> bool:
        if len(raw) != tokens * self.token_bytes:
            return False
        buffer = torch.from_numpy(np.frombuffer(raw, np.uint8).copy())
        first, at = tokens - len(slots), 0
        copies = []
        for layer in self._forms:
            parts = []
            for form in layer:
                size = tokens * form.nbytes
                whole = buffer[at : at + size].view(form.dtype).view(tokens, *form.shape)
                parts.append(whole[first:])
                at += size
            copies.append([parts])
        self._allocator.load_cpu_copy(copies, slots)
        return True


def _bytes(part: torch.Tensor) -> bytes:
    raw: bytes = part.contiguous().view(torch.uint8).numpy().tobytes()
    return raw
