"""Takes pieces that have arrived into the pool, a little in each step.

Knows the library and who gives way when there is no room. Must not know the network.
"""

from __future__ import annotations

from multiverse_worker.engines.llamacpp.branch import Branch
from multiverse_worker.engines.llamacpp.cache import KvCache
from multiverse_worker.engines.llamacpp.endings import Endings
from multiverse_worker.engines.llamacpp.landing import Landing
from multiverse_worker.engines.llamacpp.pressure import Pressure
from multiverse_worker.tier.orders import Arrival, Orders
from multiverse_worker.tier.pace import Pace


class Receiving:
    """`waits` says whether something was not there yet in this step."""

    def __init__(
        self, orders: Orders, cache: KvCache, pressure: Pressure, endings: Endings, pace: Pace
    ) -> None:
        self._orders = orders
        self._cache = cache
        self._pressure = pressure
        self._endings = endings
        self._pace = pace

    def settled(self, branch: Branch) -> bool:
        """Whether the loading of `branch` may go on: it knows what it waited for."""
        match branch.coming:
            case Arrival() as arrival:
                if not self._orders.arrived(arrival):
                    return False
            case Landing() as landing:
                if not self._pace.may() or not self._has_room(branch, landing):
                    return False
                self._land(branch, landing)
        branch.coming = None
        return True

    def _has_room(self, branch: Branch, landing: Landing) -> bool:
        while not self._cache.make_room(len(landing.piece.places)):
            if not self._pressure.relieve(branch):
                self._endings.wait(branch)
                return False
        return True

    def _land(self, branch: Branch, landing: Landing) -> None:
        landing.landed = self._cache.land(landing.holding, landing.piece, landing.raw)
        if landing.landed:
            branch.to_load = max(0, branch.to_load - len(landing.piece.places))
