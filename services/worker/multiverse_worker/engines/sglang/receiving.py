"""Takes pieces that have arrived into the pool, a little in each step.

Knows slots and the tree. Must not know the network.
"""

from __future__ import annotations

from collections.abc import Callable

from multiverse_worker.engines.sglang.branch import Branch
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.engines.sglang.loading import Landing
from multiverse_worker.engines.sglang.slots import Slots
from multiverse_worker.tier.orders import Arrival, Orders
from multiverse_worker.tier.pace import Pace


class Receiving:
    """Slots that it takes go to the tree at once, so they are never nobody's."""

    def __init__(self, orders: Orders, tree: KvTree, slots: Slots, pace: Pace) -> None:
        self._orders = orders
        self._tree = tree
        self._slots = slots
        self._pace = pace

    def settled(self, branch: Branch) -> bool:
        """Whether it is known what became of that which the branch waits for."""
        match branch.coming:
            case Arrival() as arrival:
                return self._orders.arrived(arrival)
            case Landing():
                return self._pace.may()
        return False

    def land(self, branch: Branch, landing: Landing, relieve: Callable[[], bool]) -> Node | None:
        """Where the piece ends in the tree; None when it can't be had.

        `relieve` takes memory from younger requests, while there is any to take.
        """
        tree, piece = self._tree, landing.piece
        node, found = tree.walk(landing.node, piece.ids[landing.held :], piece.start + landing.held)
        branch.move_pin(tree, landing.node, node)
        held = landing.held + found
        lacking = len(piece.ids) - held
        if not lacking:
            return node
        slots = self._slots.take(lacking)
        while slots is None:
            if not relieve():
                return None
            slots = self._slots.take(lacking)
        if not self._slots.write(landing.raw, len(piece.ids), slots):
            self._slots.give(slots)
            return None
        end, _ = tree.insert(node, piece.ids[held:], piece.start + held, slots)
        branch.move_pin(tree, node, end)
        return end
