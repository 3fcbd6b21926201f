"""Where the paths of a block are joined: one rule for the router and the simulated fleet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

LEAVES = 2  # times as many tokens of the paths elsewhere, and a join leaves its home

W = TypeVar("W")


def joined_at(home: W, tokens: Mapping[W, int], *, shipped: bool) -> W:
    """The home of the fork, or a worker that has over twice as many tokens of the paths.

    `tokens` of the paths by the worker that has them; `shipped`: those at home were sent to the
    tier too. What was not would be computed again elsewhere, so it keeps the join at home.
    """
    most = max(tokens, key=tokens.__getitem__, default=home)
    at_home = tokens.get(home, 0)
    movable = shipped or not at_home
    return most if movable and tokens.get(most, 0) > LEAVES * at_home else home
