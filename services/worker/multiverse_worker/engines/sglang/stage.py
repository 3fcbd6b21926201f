"""What one SGLang request computes for a branch. Must not know SGLang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from multiverse_worker.contract import Ids
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree

if TYPE_CHECKING:
    from multiverse_worker.engines.sglang.branch import Branch


@dataclass(slots=True, eq=False)
class Stage:
    """`ids` behind the resident context of `parent`."""

    branch: Branch
    parent: Node  # the last that the branch has pinned
    ids: Ids
    start: int  # position of the first id
    linear: int  # its index in the linear order of the branch's context
    decodes: bool = False  # and goes on to sample
    first_draw: int = 0  # number of tokens the branch had sampled before
    request: Any = None  # the SGLang request, once there is one

    @property
    def delta(self) -> int:
        """Index in the row minus position, the same for all tokens that it computes."""
        return self.parent.length - self.start

    @property
    def total(self) -> int:
        """Length of the row before anything is sampled."""
        return self.parent.length + len(self.ids)

    def advance(self, tree: KvTree) -> None:
        """Take over what others have computed meanwhile; one id is left to compute."""
        node, found = tree.walk(self.parent, self.ids[:-1], self.start)
        if found:
            self.branch.move_pin(tree, self.parent, node)
            self.parent, self.ids = node, self.ids[found:]
            self.start, self.linear = self.start + found, self.linear + found
            self.branch.reused += found
