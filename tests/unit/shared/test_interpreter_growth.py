"""Growth that an interpreter tells: merged by path and kind, in time linear in the ids."""

from __future__ import annotations

import time

from multiverse_shared.effects import Effect, Forked, Kind, Tokens
from multiverse_shared.interpreter import _merged


def test_neighbours_of_one_path_and_kind_are_one_growth() -> None:
    fork = Forked("0", ("0.1",), ((1,),))
    effects: list[Effect] = [
        Tokens("0", (1,), Kind.TEXT),
        Tokens("0", (2, 3), Kind.TEXT),
        Tokens("0", (4,), Kind.TAG),
        fork,
        Tokens("0", (5,), Kind.TAG),
        Tokens("0.1", (6,), Kind.TAG),
        Tokens("0.1", (7,), Kind.TAG),
    ]
    assert _merged(effects) == [
        Tokens("0", (1, 2, 3), Kind.TEXT),
        Tokens("0", (4,), Kind.TAG),
        fork,
        Tokens("0", (5,), Kind.TAG),
        Tokens("0.1", (6, 7), Kind.TAG),
    ]


def test_a_very_long_growth_is_merged_in_one_pass() -> None:
    effects: list[Effect] = [Tokens("0", (token,), Kind.TEXT) for token in range(200_000)]
    begun = time.process_time()
    assert _merged(effects) == [Tokens("0", tuple(range(200_000)), Kind.TEXT)]
    assert time.process_time() - begun < 10  # a pass for each id takes minutes
