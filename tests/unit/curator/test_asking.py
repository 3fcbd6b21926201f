"""Who is asked again, when, and what it costs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from multiverse_curator.answers import Label, Rewrite
from multiverse_curator.asking import Asking, Terms
from multiverse_curator.faults import Stage
from multiverse_curator.material import RewriteMaterial
from multiverse_curator.pace import LocalPace
from multiverse_curator.pipeline import Pipeline, Rules
from multiverse_curator.source import Source
from multiverse_curator.store import CallState, Complaint, State, Store, local_store
from multiverse_curator.teachers.contract import Question, Reply, Spent, TeacherBusy
from multiverse_curator.teachers.rules import RulesTeacher

TWO_FORKS = (
    "Case 1: n is even. Fine.\nCase 2: n is odd. Bad.\n\nSo let us go on.\n"
    "Method 1: draw it first.\nMethod 2: compute it first.\n\nSo it is done."
)


class Counting(RulesTeacher):
    """Rules, except that one question is answered badly until it hears a complaint."""

    def __init__(self, spoilt: str = "", *, stubborn: bool = False) -> None:
        self.asked: Counter[str] = Counter()
        self.heard: list[str] = []
        self._spoilt = spoilt
        self._stubborn = stubborn

    async def answer(self, question: Question, max_output_tokens: int) -> Reply:
        name = f"{question.stage.value}/{question.name}"
        self.asked[name] += 1
        self.heard += [question.complaint] if question.complaint else []
        if name == self._spoilt and (self._stubborn or not question.complaint):
            bad = Rewrite(outlines=["same", "same"], paths=["a", "b"], conclusion="c")
            return Reply(bad.model_dump_json(), Spent())
        return await super().answer(question, max_output_tokens)


class Busy(RulesTeacher):
    """Asks for a pause `times` times."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def answer(self, question: Question, max_output_tokens: int) -> Reply:
        if self.times:
            self.times -= 1
            raise TeacherBusy("later", 7.0)
        return await super().answer(question, max_output_tokens)


@pytest.fixture
def store() -> Iterator[Store]:
    opened = local_store("sqlite://")
    opened.add([Source(id="one", prompt="?", reasoning=TWO_FORKS)])
    yield opened
    opened.close()


def pipeline(store: Store, teacher: RulesTeacher, slept: list[float] | None = None) -> Pipeline:
    pauses = [] if slept is None else slept

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    asking = Asking(teacher, store.ledger, LocalPace(None, None), Terms(), sleep)
    return Pipeline(store, asking, Rules())


async def test_only_the_question_at_fault_is_asked_again(store: Store) -> None:
    teacher = Counting("rewrite/0.2")
    assert await pipeline(store, teacher).finish(1) is State.CONVERTED
    assert teacher.asked == {
        "summary/": 1,
        "groups/": 1,
        "refill/": 1,
        "rewrite/0.0": 1,
        "rewrite/0.2": 2,
    }
    assert teacher.heard == ["two outlines are the same"]
    assert store.sample(1).tries == {"rewrite": 1}


async def test_a_question_that_is_never_answered_well_is_asked_three_times(store: Store) -> None:
    teacher = Counting("refill/", stubborn=True)
    assert await pipeline(store, teacher).finish(1) is State.DEAD
    assert teacher.asked["refill/"] == 3
    assert store.sample(1).failed_stage == "refill"


async def test_a_complaint_about_a_whole_stage_is_heard_by_all_its_questions(store: Store) -> None:
    teacher = Counting()
    asking = Asking(teacher, store.ledger, LocalPace(None, None), Terms())
    ask = asking.of(1, {"rewrite/": Complaint("the answer changed", 1)})
    data = RewriteMaterial(question="?", before="", label=Label.COLLECTIVE, paths=["a.", "b."])
    for name in ("0.0", "0.2"):
        await ask(Question(Stage.REWRITE, name, "", data, Rewrite), Rewrite)
    assert teacher.heard == ["the answer changed"] * 2


def test_ids_come_once_each_whatever_the_size_of_a_page(store: Store) -> None:
    store.add([Source(id=str(n), prompt="?", reasoning="x") for n in range(9)])
    assert list(store.ids(State.PENDING, page=3)) == list(range(1, 11))


async def test_each_stage_is_done_once_however_often_it_is_delivered(store: Store) -> None:
    teacher = Counting()
    first, second = pipeline(store, teacher), pipeline(store, teacher)
    while await first.advance(1) is State.PENDING:
        await second.advance(1)
    assert await second.advance(1) is State.CONVERTED
    assert set(teacher.asked.values()) == {1}


async def test_a_pause_that_the_teacher_names_is_kept(store: Store) -> None:
    slept: list[float] = []
    assert await pipeline(store, Busy(2), slept).finish(1) is State.CONVERTED
    assert len(slept) == 2
    assert all(7.0 <= seconds < 9.0 for seconds in slept)
    assert store.counts()["calls"] == {CallState.ANSWERED: 5, CallState.FAILED: 2}


async def test_tokens_are_paced() -> None:
    pace = LocalPace(None, tokens_per_minute=60_000)
    await pace.wait(10_000)  # ten seconds' worth may go at once
    begun = time.monotonic()
    await pace.wait(150)
    await pace.wait(150)
    assert time.monotonic() - begun >= 0.29
