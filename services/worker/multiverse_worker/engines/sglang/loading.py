"""Makes a context resident: what is held is taken, the rest fetched from the tier or computed.

A generator of steps. Each is a part to compute, or to wait for, and is answered with the node
at which the context goes on. Knows no SGLang and no network.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from multiverse_shared.keys import CHUNK
from multiverse_shared.layout import block_end
from multiverse_shared.tree import Block, Context, Text, count
from multiverse_worker.contract import Ids
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.engines.sglang.lacking import Chain, behind, chain_at, chain_into, lacking
from multiverse_worker.engines.sglang.prompts import Prompts
from multiverse_worker.engines.sglang.stage import Stage
from multiverse_worker.tier.counts import Cause
from multiverse_worker.tier.orders import Arrival, Order, Orders
from multiverse_worker.tier.pieces import Piece, pieces

if TYPE_CHECKING:
    from multiverse_worker.engines.sglang.branch import Branch


@dataclass(slots=True, eq=False)
class Landing:
    """A piece that has arrived is to be put behind `node`, the last that the branch has pinned.

    Answered with the node that holds it, or with None when there is no room for it.
    """

    node: Node
    piece: Piece
    raw: bytes
    held: int  # ids of the piece that are resident already


T = TypeVar("T")
Coming: TypeAlias = Arrival | Landing
Steps: TypeAlias = Generator[Stage | Coming, Node | None, T]


@dataclass(slots=True)
class Loader:
    """For one branch, which pins all that it finds."""

    branch: Branch
    tree: KvTree
    orders: Orders
    prompts: Prompts

    def load(
        self,
        node: Node,
        at: int,
        context: Context,
        linear: int,
        chain: Chain,
        order: Order | None = None,
        *,
        inside: bool = False,
    ) -> Steps[tuple[Node, int]]:
        """All of `context`, which goes on from `node` at position `at`; where it ends.

        `order` is what of it is on its way, and `inside` says that nothing more is asked for.
        """
        for number, item in enumerate(context):
            here = chain_at(context[:number], chain)
            if isinstance(item, Text):
                at = item.start if item.start is not None else at
                node, found = yield from self.text(
                    node, item, at, linear, here, order, inside=inside
                )
                if found < len(item.ids):
                    node = yield from self.feed(node, item.ids[found:], at + found, linear + found)
                at += len(item.ids)
            else:
                node, at = yield from self._block(node, at, item, linear, here, order, inside)
            linear += count((item,))
        return node, at

    def text(
        self,
        node: Node,
        text: Text,
        at: int,
        linear: int,
        chain: Chain,
        order: Order | None = None,
        *,
        inside: bool = False,
    ) -> Steps[tuple[Node, int]]:
        """As much of a text as is resident or comes; its end, and how many ids that are."""
        node, done = self.tree.walk(node, text.ids, at)
        self.branch.reused += done
        self.branch.pin(self.tree, node)
        prompt = None
        if linear == 0 and not inside:
            if at == 0:
                node, done = self.prompts.restore(self.branch, node, text.ids, done)
            order = prompt = self._prompt(text, done, chain)
        if order is None or done == len(text.ids):
            return node, done
        try:
            stop = 0
            for piece in pieces((text,), chain()):
                first, stop = stop, stop + len(piece.ids)
                if stop <= done or piece.name not in order.names:
                    continue
                arrival = Arrival(order, piece)
                yield arrival
                if not isinstance(arrival.answer, bytes):
                    continue
                if done < first:
                    node = yield from self.feed(
                        node, text.ids[done:first], at + done, linear + done
                    )
                    done = first
                landed = yield Landing(node, piece, arrival.answer, done - first)
                if landed:
                    self.orders.landed(piece)
                    self.branch.reused += stop - done
                    node, done = landed, stop
                else:
                    self.orders.missed(order, piece, Cause.REFUSED)
        finally:
            if prompt:
                prompt.drop()
        return node, done

    def _prompt(self, text: Text, done: int, chain: Chain) -> Order | None:
        """Ask for what is not resident of the text that a context begins with: full chunks."""
        if self.orders.tier is None or len(text.ids) - done < CHUNK:
            return None
        full = [piece for piece in behind(done, text, chain()) if not piece.chain.pending]
        return self.orders.order({0: full}, again=False)

    def _block(
        self,
        node: Node,
        at: int,
        block: Block,
        linear: int,
        chain: Chain,
        order: Order | None,
        inside: bool,
    ) -> Steps[tuple[Node, int]]:
        """Join the paths of a block. What they lack, blocks in them included, is asked for at
        once; what of it does not come was computed elsewhere, and is counted."""
        inner, begins = chain_into(block, chain), at + block.path_offset
        own = None
        if not inside:
            order = own = self._order(node, begins, block, inner)
        ends: list[Node] = []
        try:
            for path in block.paths:
                end, _ = yield from self.load(node, begins, path, linear, inner, order, inside=True)
                ends.append(end)
                linear += count(path)
        finally:
            if own:
                own.drop()
        at = block_end(block, at)
        node = self.tree.join(node, tuple(ends), at)
        self.branch.pin(self.tree, node)
        return node, at

    def _order(self, node: Node, at: int, block: Block, chain: Chain) -> Order | None:
        cut = {
            number: lacking(self.tree, node, at, path, chain)[0]
            for number, path in enumerate(block.paths)
        }
        return self.orders.order(cut, again=True)

    def feed(self, node: Node, ids: Ids, at: int, linear: int) -> Steps[Node]:
        """Compute `ids` behind `node`."""
        computed = yield Stage(self.branch, node, ids, at, linear)
        assert computed is not None
        self.branch.pin(self.tree, computed)
        return computed
