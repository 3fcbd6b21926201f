"""A tree told as one text: complete, in the order of the tree, and as early as possible."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_router.events import AnswerEvent, ForkEvent, PathEndEvent, TextEvent
from multiverse_router.linear import Linear
from tests.unit.router.trees import Answer, answers, flat, interleaved

_rngs = st.integers(0, 2**32).map(Random)


def sayable(events: Sequence[AnswerEvent], path: str = "0") -> tuple[str, bool]:
    """By definition: the text of `path` up to the first gap, and whether it is complete."""
    out, ended = "", path == "0"
    for event in events:
        match event:
            case TextEvent(path=where) if where == path:
                out += event.delta
            case ForkEvent(path=where) if where == path:
                for child in event.paths:
                    text, complete = sayable(events, child)
                    out += text
                    if not complete:
                        return out, False
            case PathEndEvent(path=where) if where == path:
                ended = True
    return out, ended


@settings(max_examples=80, deadline=None)
@given(answer=answers, rng=_rngs)
def test_what_is_said_is_the_answer_in_the_order_of_its_tree(answer: Answer, rng: Random) -> None:
    linear = Linear()
    assert "".join(linear.add(event) for event in interleaved(answer, rng)) == flat(answer)


@settings(max_examples=50, deadline=None)
@given(answer=answers, rng=_rngs)
def test_at_every_moment_all_that_may_be_said_was_said(answer: Answer, rng: Random) -> None:
    linear, events, said = Linear(), list[AnswerEvent](), ""
    for event in interleaved(answer, rng):
        events.append(event)
        said += linear.add(event)
        assert said == sayable(events)[0]


@settings(max_examples=50, deadline=None)
@given(answer=answers, rng=_rngs)
def test_stripped_only_the_models_own_text_is_left(answer: Answer, rng: Random) -> None:
    linear = Linear(tags=False)
    said = "".join(linear.add(event) for event in interleaved(answer, rng))
    assert said == flat(answer, tags=False)


def test_the_first_path_is_said_live_and_the_second_when_the_first_has_ended() -> None:
    linear = Linear()
    said = [
        linear.add(event)
        for event in (
            TextEvent("0", "tag", "<plan>", ()),
            ForkEvent("0", 2, ("0.1", "0.2"), ("", "")),
            TextEvent("0.2", "text", "b", ()),
            TextEvent("0.1", "text", "a", ()),
            TextEvent("0.1", "text", "A", ()),
            PathEndEvent("0.2", "stop", False),
            PathEndEvent("0.1", "stop", False),
            TextEvent("0", "written", "<end>", ()),
        )
    ]
    assert said == ["<plan>", "", "", "a", "A", "", "b", "<end>"]


def test_a_path_that_waits_for_its_own_paths_holds_back_its_younger_sibling() -> None:
    linear = Linear()
    said = [
        linear.add(event)
        for event in (
            ForkEvent("0", 2, ("0.1", "0.2"), ("", "")),
            ForkEvent("0.1", 1, ("0.1.1",), ("",)),
            TextEvent("0.2", "text", "last", ()),
            PathEndEvent("0.2", "stop", False),
            TextEvent("0.1.1", "text", "inner", ()),
            PathEndEvent("0.1.1", "stop", False),
            TextEvent("0.1", "text", "outer", ()),
            PathEndEvent("0.1", "stop", False),
        )
    ]
    assert said == ["", "", "", "", "inner", "", "outer", "last"]
