"""Where the paths of a block are joined."""

from __future__ import annotations

import pytest

from multiverse_router.placement.joins import joined_at


@pytest.mark.parametrize(
    ("tokens", "shipped", "at"),
    [
        ({}, True, "home"),
        ({"home": 50}, True, "home"),
        ({"home": 50, "b": 100}, True, "home"),
        ({"home": 50, "b": 101}, True, "b"),
        ({"home": 50, "b": 60, "c": 60}, True, "home"),
        ({"home": 50, "b": 101}, False, "home"),
        ({"b": 60, "c": 61}, False, "c"),
    ],
)
def test_a_join_is_at_home_unless_another_has_far_more_and_it_can_be_fetched(
    tokens: dict[str, int], shipped: bool, at: str
) -> None:
    assert joined_at("home", tokens, shipped=shipped) == at


def test_without_a_home_it_is_where_most_is() -> None:
    assert joined_at(None, {"b": 3, "c": 4}, shipped=False) == "c"
    assert joined_at(None, {}, shipped=True) is None
