"""A place in a context that is resident.

A text node holds the slots of a run of tokens. A join node holds none: it stands for the
context behind a closed block and refers to the ends of the block's paths.
"""

from __future__ import annotations

import torch

from multiverse_worker.contract import Ids

NO_SLOTS = torch.empty(0, dtype=torch.int64)


class Node:
    """A place in a context. Only `KvTree` changes it."""

    __slots__ = (
        "end",
        "ids",
        "joins",
        "key",
        "leases",
        "length",
        "locks",
        "number",
        "parent",
        "paths",
        "prompt",
        "slots",
        "start",
        "texts",
        "touched",
        "uses",
    )

    def __init__(
        self,
        number: int,
        parent: Node | None,
        *,
        start: int,
        end: int,
        length: int,
        ids: Ids = (),
        slots: torch.Tensor = NO_SLOTS,
        paths: tuple[Node, ...] = (),
        key: tuple[int, ...] = (),
    ) -> None:
        self.number = number
        self.parent = parent
        self.start = start  # position of the first token of a text
        self.end = end  # position of the token that follows
        self.length = length  # tokens of the whole context, in linear order
        self.ids = ids
        self.slots = slots  # [tokens]
        self.paths = paths  # of a join: where the paths end
        self.key = key  # under which a node without tokens hangs
        self.texts: dict[tuple[int, int], Node] = {}  # by position and id of the first token
        self.joins: dict[tuple[int, ...], Node] = {}  # by end position and numbers of the paths
        self.uses = 0  # joins that have this node among their paths
        self.prompt = False  # requests begin with it
        self.locks = 0
        self.leases = 0  # how many of the locks are leases
        self.touched = 0

    @property
    def is_leaf(self) -> bool:
        return not (self.texts or self.joins or self.uses)

    def slots_behind(self, stop: Node) -> list[torch.Tensor]:
        """The slots from behind `stop`, which is above this node, to its end, in linear order."""
        node, spine = self, list[Node]()
        while node is not stop:
            spine.append(node)
            assert node.parent is not None
            node = node.parent
        parts: list[torch.Tensor] = []
        for step in reversed(spine):
            if step.ids:
                parts.append(step.slots)
            for path in step.paths:
                assert step.parent is not None
                parts += path.slots_behind(step.parent)
        return parts

    def rests_on(self, root: Node) -> set[Node]:
        """All nodes of its context, itself included, but the root."""
        seen: set[Node] = set()

        def collect(node: Node, stop: Node) -> None:
            while node is not stop and node not in seen:
                seen.add(node)
                assert node.parent is not None
                for path in node.paths:
                    collect(path, node.parent)
                node = node.parent

        collect(self, root)
        return seen


def join_key(paths: tuple[Node, ...], end: int) -> tuple[int, ...]:
    """Under which a join hangs where its block opens."""
    return (end, *(path.number for path in paths))
