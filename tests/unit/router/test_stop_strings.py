"""Where a text is cut, however it comes in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_router.stop_strings import StopStrings

TEXT = st.text("ab", max_size=30)
STOPS = st.lists(st.text("ab", min_size=1, max_size=5), max_size=4).map(tuple)


def cut(text: str, stops: tuple[str, ...]) -> tuple[str, bool]:
    """By definition: at each end in turn, the longest stop string that ends there."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))], True
    return text, False


@settings(max_examples=300, deadline=None)
@given(TEXT, STOPS, st.data())
def test_the_cut_does_not_depend_on_the_pieces(
    text: str, stops: tuple[str, ...], data: st.DataObject
) -> None:
    expected, matched = cut(text, stops)
    reader, said, rest = StopStrings(stops), "", text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        said += reader.add(rest[:size])
        assert expected.startswith(said)
        rest = rest[size:]
    said += reader.flush()
    assert (said, reader.matched) == (expected, matched)


@settings(max_examples=200, deadline=None)
@given(TEXT, STOPS)
def test_no_more_is_held_back_than_could_be_a_stop_string(
    text: str, stops: tuple[str, ...]
) -> None:
    reader, said = StopStrings(stops), ""
    for end, character in enumerate(text, 1):
        said += reader.add(character)
        if reader.matched:
            return
        held = text[len(said) : end]
        assert not held or any(s.startswith(held) and s != held for s in stops)


def test_without_stop_strings_everything_is_said_at_once() -> None:
    assert StopStrings(()).add("text") == "text"


def test_what_was_flushed_is_not_the_beginning_of_a_stop_string() -> None:
    reader = StopStrings(("ab",))
    assert (reader.add("xa"), reader.flush(), reader.add("b")) == ("x", "a", "b")
    assert not reader.matched


@pytest.mark.parametrize("more", ["b", "ab", ""])
def test_nothing_is_said_behind_a_stop_string(more: str) -> None:
    reader = StopStrings(("ab",))
    assert reader.add("xab") == "x"
    assert reader.add(more) + reader.flush() == ""
