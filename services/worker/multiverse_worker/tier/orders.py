"""What a loading context lacks, asked for from the tier: or computed, where that is cheaper.

Fetching and computing are both measured, by tokens; what took longer lately is not done. A
guess that says "compute" fades, so that fetching is tried again after a while. Knows pieces and
costs. Must not know engines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from multiverse_worker.tier.counts import Cause, TierCounts
from multiverse_worker.tier.line import Line
from multiverse_worker.tier.pieces import Name, Piece

if TYPE_CHECKING:
    from multiverse_worker.tier.tier import Fetch, Tier

Cut: TypeAlias = Mapping[int, Sequence[Piece]]  # by item of a context


@dataclass(slots=True, eq=False)
class Arrival:
    """A loading branch waits for a piece: for its bytes, or for the cause why there are none."""

    order: Order
    piece: Piece
    answer: bytes | Cause | None = None


@dataclass(slots=True, eq=False)
class Order:
    """Pieces on their way, for one part of a context. `drop` it when nobody waits any more."""

    cut: Cut
    names: set[Name]  # of the pieces that were not taken yet
    fetch: Fetch
    again: bool  # it was computed before: what does not come is recomputed
    tokens: int
    begun: float
    left: int  # pieces not yet known of
    failed: bool = False
    late: bool = False
    came: bool = False  # something was carried

    def drop(self) -> None:
        self.fetch.drop()


@dataclass(slots=True)
class Orders:
    """Decides and counts. Without a tier everything is computed."""

    tier: Tier | None = None
    always: bool = False  # fetch without asking what it costs
    clock: Callable[[], float] = time.perf_counter
    counts: TierCounts = field(init=False)
    fetching: Line = field(default_factory=Line)  # seconds by tokens
    computing: Line = field(default_factory=Line)

    def __post_init__(self) -> None:
        self.counts = self.tier.counts if self.tier else TierCounts()

    def order(self, cut: Cut, *, again: bool) -> Order | None:
        """Ask for pieces; None where they are to be computed."""
        wanted = list({piece.name: piece for pieces in cut.values() for piece in pieces}.values())
        if not wanted:
            return None
        tokens = sum(len(piece.places) for piece in wanted)
        if self.tier is None:
            self._none(wanted, Cause.OFF, again)
            return None
        if not self.always and self._cheaper(tokens):
            self.fetching.fade()
            self._none(wanted, Cause.CHEAPER, again)
            return None
        names = [piece.name for piece in wanted]
        fetch = self.tier.fetch(names)
        return Order(cut, set(names), fetch, again, tokens, self.clock(), len(wanted))

    def arrived(self, arrival: Arrival) -> bool:
        """Whether it is known what became of the piece: the answer is in `arrival` then."""
        order, piece = arrival.order, arrival.piece
        if not order.fetch.arrived(piece.name):
            return False
        arrival.answer = answer = order.fetch.take(piece.name)
        order.names.discard(piece.name)
        if isinstance(answer, Cause):
            self.missed(order, piece, answer)
        else:
            order.came = True
        order.left -= 1
        if not order.left:
            self._complete(order)
        return True

    def landed(self, piece: Piece) -> None:
        """The piece is part of a context now."""
        self.counts.fetched_blocks += 1
        self.counts.fetched_tokens += len(piece.places)

    def missed(self, order: Order, piece: Piece, cause: Cause) -> None:
        """The piece did not come, or could not be used."""
        order.failed = True
        order.late |= cause is Cause.SLOW
        if order.again:
            self.counts.recompute(cause, len(piece.places))

    def spoilt(self, order: Order, cut: Sequence[Piece], number: int, cause: Cause) -> None:
        """Piece `number` of a block did not come: all others are of no use."""
        rest = cut[number + 1 :]
        for piece in (*cut[:number], *rest):
            self.missed(order, piece, cause)
        order.left -= len(rest)
        if rest and not order.left:
            self._complete(order)

    def _complete(self, order: Order) -> None:
        seconds = self.clock() - order.begun
        self.counts.fetch_s += seconds
        if not order.came and not order.late:
            return  # nothing was carried: that says nothing about carrying
        self.fetching.add(order.tokens, seconds)
        computing = self.computing.at(order.tokens)
        if computing is not None and not order.failed:
            self.counts.saved_s += max(0.0, computing - seconds)

    def _cheaper(self, tokens: int) -> bool:
        """Whether computing so many tokens takes less time than fetching them, as far as known."""
        fetching, computing = self.fetching.at(tokens), self.computing.at(tokens)
        return fetching is not None and computing is not None and computing < fetching

    def _none(self, wanted: Sequence[Piece], cause: Cause, again: bool) -> None:
        if again:
            for piece in wanted:
                self.counts.recompute(cause, len(piece.places))
