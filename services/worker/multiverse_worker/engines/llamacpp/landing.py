"""A piece that has arrived and is to be put into the pool. Knows pieces and holdings."""

from __future__ import annotations

from dataclasses import dataclass

from multiverse_worker.engines.llamacpp.index import Holding
from multiverse_worker.tier.pieces import Piece


@dataclass(slots=True, eq=False)
class Landing:
    """It goes to the end of a holding."""

    holding: Holding
    piece: Piece
    raw: bytes
    landed: bool = False
