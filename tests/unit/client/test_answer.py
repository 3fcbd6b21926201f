"""The tree of an answer, event by event, against the router's own linear order."""

from __future__ import annotations

from dataclasses import asdict
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_client import Answer, ConnectionFailed, Event, Finish, Fork, Join, PathEnd, Text
from multiverse_client.events import read_event
from multiverse_client.sse import SseReader
from multiverse_router.api.streaming import sse
from multiverse_router.events import (
    AnswerEvent,
    FinishEvent,
    ForkEvent,
    JoinEvent,
    PathEndEvent,
    TextEvent,
    event_json,
)
from multiverse_router.linear import Linear
from tests.unit.router.test_events import EVENTS


def random_events(seed: int) -> list[AnswerEvent]:
    """A random answer: the paths of a block speak in any order, and may fork again."""
    rng = Random(seed)
    told: list[AnswerEvent] = []

    def speak(path: str, depth: int, after: int) -> int:
        """Returns how many paths were started so far."""
        for kind in rng.sample(["text", "tag", "written"], rng.randint(0, 3)):
            told.append(TextEvent(path, kind, f"<{path}:{len(told)}>", (len(told),)))
        if depth == 0 or rng.random() < 0.3:
            return after
        k = rng.randint(1, 3)
        paths = tuple(f"{path}.{after + number}" for number in range(1, k + 1))
        told.append(ForkEvent(path, k, paths, tuple(f"plan of {name}" for name in paths)))
        for name in rng.sample(paths, k):
            begun = 0
            for _ in range(rng.randint(1, 2)):
                begun = speak(name, depth - 1, begun)
            told.append(PathEndEvent(name, "stop", rng.random() < 0.2))
        told.append(JoinEvent(path, k, paths))
        return after + k

    begun = 0
    for _ in range(3):
        begun = speak("0", 3, begun)
    return [*told, FinishEvent("stop")]


def read(events: list[AnswerEvent]) -> list[Event]:
    """What a client makes of the router's bytes."""
    data = "".join(sse(event_json(event, number)) for number, event in enumerate(events)).encode()
    found = [read_event(fields) for fields in SseReader().feed(data)]
    return [event for event in found if event]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("tags", [True, False])
def test_the_text_is_that_of_the_linear_order(seed: int, tags: bool) -> None:
    events = random_events(seed)
    linear, answer = Linear(tags=tags), Answer()
    for event in read(events):
        answer.add(event)
    assert answer.text(tags=tags) == "".join(linear.add(event) for event in events)
    assert answer.complete


@pytest.mark.parametrize("seed", range(10))
def test_every_path_has_its_outline_its_parts_and_its_end(seed: int) -> None:
    answer = Answer()
    events = read(random_events(seed))
    for event in events:
        answer.add(event)
    assert not any(path.waits for path in answer.paths.values())
    for name, path in answer.paths.items():
        assert path.outline == ("" if name == "0" else f"plan of {name}")
        said = [event for event in events if isinstance(event, Text) and event.path == name]
        assert path.own_text == "".join(text.delta for text in said)
        forked = [event for event in events if isinstance(event, Fork) and event.path == name]
        assert path.forks == forked
        assert (path.end is None) == (name == "0")
        assert answer.text(name).startswith(path.own_text[:1])


def test_a_path_waits_between_its_fork_and_its_join() -> None:
    answer = Answer()
    answer.add(Fork(0, "0", 1, ("0.1",), ("x",)))
    assert answer.root.waits
    answer.add(PathEnd(1, "0.1", "stop", False))
    answer.add(Join(2, "0", 1, ("0.1",)))
    assert not answer.root.waits
    assert not answer.complete


def test_an_answer_goes_back_as_its_context_or_as_its_text() -> None:
    answer = Answer()
    answer.add(Text(0, "0", "text", "a", (1,)))
    answer.add(Finish(1, "stop"))
    assert answer.message() == {"role": "assistant", "content": "a"}
    answer.add(Finish(1, "stop", context="signed"))
    assert answer.message() == {"role": "assistant", "multiverse": {"context": "signed"}}


@pytest.mark.parametrize("event", [event for event, _ in EVENTS], ids=lambda event: event.type)
def test_an_event_says_here_what_the_router_says(event: AnswerEvent) -> None:
    got = read_event(event_json(event, 5))
    if event.type == "error":
        assert got is None
        return
    assert got is not None
    assert {name: value for name, value in asdict(got).items() if value not in (None, ())} == {
        "seq": 5,
        **{name: value for name, value in asdict(event).items() if value is not None},
    }


def test_what_is_not_known_here_is_left_out() -> None:
    assert read_event({"type": "of the future", "seq": 0}) is None
    assert read_event({"type": "finish", "seq": 0, "reason": "stop", "more": 1}) == Finish(
        0, "stop"
    )


def test_an_event_that_lacks_a_field_is_no_answer_of_this_api() -> None:
    with pytest.raises(ConnectionFailed, match="finish"):
        read_event({"type": "finish", "seq": 0})


@given(st.lists(st.text()), st.data())
def test_bytes_may_be_cut_anywhere(texts: list[str], data: st.DataObject) -> None:
    whole = "".join(sse({"delta": text}, "text") for text in texts).encode("utf-8", "replace")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    reader, got = SseReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        got += list(reader.feed(whole[start:end]))
    assert [fields["delta"] for fields in got] == texts


def test_comments_other_line_ends_and_several_lines_are_understood() -> None:
    reader = SseReader()
    assert list(reader.feed(b': beat\n\ndata: {"a":\r\ndata: 1}\r\n\r\n')) == [{"a": 1}]


@pytest.mark.parametrize("data", [b"data: x\n\n", b"data: [1]\n\n", b"data: [DONE]\n\n"])
def test_what_is_no_object_is_no_event(data: bytes) -> None:
    with pytest.raises(ConnectionFailed):
        list(SseReader().feed(data))
