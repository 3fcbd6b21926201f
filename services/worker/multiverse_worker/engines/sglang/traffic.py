"""The ways of KV into and out of one engine's pool, and what came of them.

Without a tier nothing moves; what a join lacks is counted all the same.
"""

from __future__ import annotations

from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.engines.sglang.prompts import Prompts, PromptStore
from multiverse_worker.engines.sglang.receiving import Receiving
from multiverse_worker.engines.sglang.shipping import Row, Shipping
from multiverse_worker.engines.sglang.slots import Slots
from multiverse_worker.tier.orders import Orders
from multiverse_worker.tier.pace import Pace
from multiverse_worker.tier.transfer import Transfer


class Traffic:
    """`pace` is begun by whoever steps."""

    def __init__(
        self,
        transfer: Transfer,
        tree: KvTree,
        slots: Slots,
        row: Row,
        store: PromptStore | None = None,
    ) -> None:
        self.tier = transfer.tier
        self.pace = Pace()
        self.orders = Orders(transfer.tier, transfer.always)
        self.prompts = Prompts(tree, self.orders.counts, store)
        self.receiving = Receiving(self.orders, tree, slots, self.pace)
        self.shipping = Shipping(transfer, tree, slots, row, self.pace)
