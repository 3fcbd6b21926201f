"""The contract of the KV pool as far as the tier is concerned: slots, and what is in them."""

from __future__ import annotations

from typing import Protocol

import torch


class Slots(Protocol):
    """One slot holds the KV of one token in all layers. Slots are int64 tensors [tokens]."""

    token_bytes: int  # of the KV of one token

    def take(self, tokens: int) -> torch.Tensor | None:
        """Free slots for the caller, idle KV evicted for them; None: there are not so many."""

    def give(self, slots: torch.Tensor) -> None:
        """The caller's slots are free again."""

    def read(self, slots: torch.Tensor) -> bytes:
        """The KV in slots, whose computing has been launched. May wait for what is launched."""

    def write(self, raw: bytes, tokens: int, slots: torch.Tensor) -> bool:
        """Put the last of `tokens` tokens that were read into the caller's slots.

        False, and nothing has changed, when `raw` is no KV of so many tokens.
        """
