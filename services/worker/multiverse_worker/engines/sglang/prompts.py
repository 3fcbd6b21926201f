"""The texts that requests begin with, in memory beside the pool: kept when they are evicted, and
brought back when a context begins with one again.

Knows the tree and a store. Must not know SGLang.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from multiverse_shared.keys import CHUNK
from multiverse_worker.contract import Ids
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.tier.counts import TierCounts

if TYPE_CHECKING:
    from multiverse_worker.engines.sglang.branch import Branch


class PromptStore(Protocol):
    """The KV of texts that begin contexts, by whose they are. Slots are int64 [tokens]."""

    def keep(self, owner: str, ids: Ids, slots: torch.Tensor) -> int:
        """Copy `ids` out of `slots`, which may be used for other things afterwards.

        Returns how many ids were copied: those that were not there, or none.
        """

    def restore(self, owner: str, ids: Ids, first: int) -> torch.Tensor | None:
        """The caller's own slots with the KV of some of `ids` from the index `first` on.

        None: there is nothing to restore, no room for it, or it can't be read.
        """


@dataclass(slots=True)
class Prompts:
    """Without a store nothing is noted, kept or restored; less than a chunk never is."""

    tree: KvTree
    counts: TierCounts
    store: PromptStore | None = None

    def note(self, branch: Branch) -> None:
        """The context of a branch is resident: what its request begins with is worth keeping."""
        prompt = branch.prompt
        if self.store and prompt and not prompt.start:
            self.tree.note_prompt(branch.start.salt, prompt.ids)

    def leave(self, node: Node) -> None:
        """A prompt, whose end is `node`, is about to be evicted."""
        text = self.tree.text(node)
        if self.store and text and node.length >= CHUNK:
            self.counts.host_stored_tokens += self.store.keep(*text, self.tree.row(node))

    def restore(self, branch: Branch, node: Node, ids: Ids, done: int) -> tuple[Node, int]:
        """Bring back what of `ids`, which begin the context of a branch, is not resident.

        `node`, the last that the branch has pinned, holds the first `done` of them. Returns the
        same of what is resident then.
        """
        text = self.tree.text(node)
        if self.store is None or text is None or len(ids) - done < CHUNK:
            return node, done
        owner, _ = text
        slots = self.store.restore(owner, ids, done)
        if slots is None:
            return node, done
        stop = done + len(slots)
        end, _ = self.tree.insert(node, ids[done:stop], done, slots)
        branch.move_pin(self.tree, node, end)
        branch.reused += len(slots)
        self.counts.host_fetched_tokens += len(slots)
        return end, stop
