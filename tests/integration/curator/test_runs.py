"""Whole runs against teachers that misbehave, through the real clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiverse_curator.asking import Price, Terms
from multiverse_curator.engine import Run, load, run
from multiverse_curator.pipeline import Rules
from multiverse_curator.source import Source
from multiverse_curator.store import State, Store, local_store
from multiverse_curator.teachers.choice import TeacherKind
from tests.integration.curator.served import (
    WIRES,
    calls,
    pipeline_of,
    teacher_at,
    teacher_server,
)
from tests.unit.curator.generated import generated

COUNT = 40
MIXED = "valid=20,invalid=2,truncated=1,refused=0.2,busy=2,fault=1,dropped=1,slow=0.1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = local_store(f"sqlite:///{tmp_path}/curate.db")
    yield opened
    opened.close()


def run_all(
    store: Store,
    kind: TeacherKind,
    url: str,
    terms: Terms | None = None,
    rules: Rules | None = None,
    in_flight: int = 32,
) -> Run:
    async def go() -> Run:
        teacher = teacher_at(kind, url, timeout_s=5.0)
        try:
            pipeline = pipeline_of(store, teacher, terms, rules)
            return await run(pipeline, store, in_flight, lambda state: None)
        finally:
            await teacher.close()

    return asyncio.run(go())


@pytest.mark.parametrize("kind", WIRES)
def test_every_sample_ends_once_whatever_the_teacher_does(kind: TeacherKind, store: Store) -> None:
    load(store, generated(COUNT, seed=5))
    with teacher_server(MIXED, seed=WIRES.index(kind)) as url:
        result = run_all(store, kind, url)
        told = calls(url)
    ended = {state: n for state, n in result.done.items() if state is not State.PENDING}
    counts = store.counts()
    assert sum(ended.values()) == COUNT
    assert counts["samples"] == {state.value: n for state, n in ended.items()}
    assert {"valid", "invalid", "truncated", "busy", "fault", "dropped"} <= told["behaved"].keys()
    assert counts["calls"].keys() == {"answered", "failed"}
    assert sum(counts["calls"].values()) == told["asked"]  # the ledger is the server's own count
    assert told["answered_twice"] == 0
    assert ended[State.CONVERTED] > COUNT / 2
    for sample_id in store.ids(State.DEAD):
        sample = store.sample(sample_id)
        assert sample.reason
        assert sample.failed_stage
    for sample_id in store.ids(State.CONVERTED):
        result_of = store.sample(sample_id).result
        assert result_of is not None
        assert result_of["id"] == store.sample(sample_id).source.key


def test_a_second_run_asks_nothing(store: Store) -> None:
    load(store, generated(10, seed=6))
    with teacher_server() as url:
        run_all(store, TeacherKind.OPENAI, url)
        asked = calls(url)["asked"]
        load(store, generated(10, seed=6))
        assert run_all(store, TeacherKind.OPENAI, url).done == {}
        assert calls(url)["asked"] == asked


@pytest.mark.parametrize("behaviour", ["invalid", "refused", "busy", "truncated"])
def test_a_sample_without_an_answer_is_dead_with_its_reason(behaviour: str, store: Store) -> None:
    load(store, generated(3, seed=6))
    with teacher_server(f"{behaviour}=1") as url:
        terms = Terms(attempts=3, first_pause_s=0.001)
        assert run_all(store, TeacherKind.OPENAI, url, terms).done == {State.DEAD: 3}
        per_sample = {"invalid": 3, "refused": 1, "busy": 3, "truncated": 2}[behaviour]
        assert calls(url)["asked"] == 3 * per_sample
    reason = store.sample(1).reason
    words = {"invalid": "JSON", "refused": "TeacherRefused"}
    assert words.get(behaviour, f"Teacher{behaviour.capitalize()}") in reason
    assert store.sample(1).failed_stage == "summary"


def test_a_budget_stops_the_run_and_is_never_exceeded(store: Store) -> None:
    load(store, generated(40, seed=7))
    price = Price(input=10.0, output=100.0)
    with teacher_server() as url:
        low = Terms(max_output_tokens=100, price=price, budget=0.2)
        stopped = run_all(store, TeacherKind.OPENAI, url, low)
        assert stopped.stopped == "the budget is spent"
        assert 0 < store.ledger.spent() <= 0.2
        assert store.counts()["samples"]["pending"] > 0
        high = Terms(max_output_tokens=100, price=price, budget=100.0)
        assert run_all(store, TeacherKind.OPENAI, url, high).stopped == ""
        assert calls(url)["answered_twice"] == 0
    assert "pending" not in store.counts()["samples"]
    booked = store.counts()
    assert booked["cost"] == pytest.approx(
        (booked["input_tokens"] * 10 + booked["output_tokens"] * 100) / 1e6
    )


def test_no_more_samples_are_in_flight_than_allowed(store: Store) -> None:
    load(store, generated(20, seed=8))
    with teacher_server(latency=0.02) as url:
        run_all(store, TeacherKind.OPENAI, url, in_flight=3)
        assert calls(url)["most_at_once"] == 3


def word(number: int) -> str:
    """Four letters: no number that could be used elsewhere."""
    return "".join(chr(97 + number // 26**place % 26) for place in range(4))


HARD = {
    "latex": "We have \\[a & b < c\\].\nCase 1: $x < 2 & y$. Fine.\nCase 2: $x > 2$. So be it.\n",
    "code": "See:\n```\nif a < b & c: x = 1; y = 2\n```\nCase 1: it runs.\nCase 2: it fails.\n",
    "cjk": "分情况讨论。\n情况一：n为偶数时成立。\n情况二：n为奇数时不成立。\n综上，不一定。",
    "tags": "Case 1: the tag </Path> ends it.\nCase 2: <Parallel> begins it.\n\nDone.",
    "empty": "",
    "blank": " \n\n ",
    "one step": "It is 4.",
    "emoji": "Case 1: \U0001f600 and \u2028 stay.\nCase 2: e\u0301 stays.\n",
    "long": "".join(f"Let us look at {word(n)} for a while.\n" for n in range(3000))
    + "Case 1: n is even. Fine.\nCase 2: n is odd. Bad.\n\nDone.",
}
PARALLEL = {"latex", "code", "cjk", "tags", "emoji", "long"}


@pytest.mark.parametrize("kind", WIRES)
def test_odd_texts_survive_as_they_are(kind: TeacherKind, store: Store) -> None:
    load(store, (Source(id=name, prompt="?", reasoning=text) for name, text in HARD.items()))
    with teacher_server() as url:
        run_all(store, kind, url)
    ended = {store.sample(n).source.key: store.sample(n) for n in range(1, len(HARD) + 1)}
    assert {name for name, s in ended.items() if s.state is State.CONVERTED} == PARALLEL
    assert {s.state for name, s in ended.items() if name not in PARALLEL} == {State.SEQUENTIAL}
    for name in PARALLEL:
        result = ended[name].result
        assert result is not None
        assert result["reasoning"] == HARD[name]
        assert result["curation"]["distance"] == 0
