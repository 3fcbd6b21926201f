"""One suite for all teachers: those behind a wire through their real clients, and `rules`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from multiverse_curator import material
from multiverse_curator.answers import Groups, Refill, Rewrite, Summary
from multiverse_curator.faults import Stage
from multiverse_curator.teachers.choice import TeacherChoice, TeacherKind
from multiverse_curator.teachers.contract import (
    Question,
    Spent,
    Teacher,
    TeacherBusy,
    TeacherError,
    TeacherMisconfigured,
    TeacherRefused,
    TeacherTruncated,
    TeacherUnavailable,
)
from tests.integration.curator.served import WIRES, calls, teacher_at, teacher_server
from tests.integration.curator.teacher_server import RETRY_S

SENTENCES = ["Two cases & more: a < b.\n", "Case 1: 中文。\n", "Case 2: \\frac{1}{2}.\n"]
SUMMARY = Summary.model_validate({"steps": [{"summary": s} for s in "abc"]})
QUESTIONS = [
    Question(
        Stage.SUMMARY,
        "",
        material.SUMMARY,
        material.SummaryMaterial(question="q", sentences=SENTENCES),
        Summary,
    ),
    Question(
        Stage.GROUPS,
        "",
        material.GROUPS,
        material.GroupsMaterial(question="q", sentences=SENTENCES, steps=SUMMARY),
        Groups,
    ),
    Question(
        Stage.REFILL,
        "",
        material.REFILL,
        material.RefillMaterial(
            question="q", sentences=SENTENCES, steps={"1": "a"}, leaves=["1", "2", "3"]
        ),
        Refill,
    ),
    Question(
        Stage.REWRITE,
        "0.1",
        material.REWRITE,
        material.RewriteMaterial(question="q", before="", label="collective", paths=SENTENCES[1:]),
        Rewrite,
        complaint="two outlines are the same",
    ),
]


@pytest.fixture(scope="module")
def good() -> Iterator[str]:
    with teacher_server() as url:
        yield url


@asynccontextmanager
async def open_teacher(kind: TeacherKind, url: str, **options: object) -> AsyncIterator[Teacher]:
    teacher = teacher_at(kind, url, **options)  # type: ignore[arg-type]
    try:
        yield teacher
    finally:
        await teacher.close()


@pytest.mark.parametrize("kind", list(TeacherKind))
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.stage.value)
async def test_answers_are_of_the_schema(kind: TeacherKind, question: Question, good: str) -> None:
    async with open_teacher(kind, good) as teacher:
        reply = await teacher.answer(question, 1000)
    question.schema.model_validate_json(reply.text)
    paid = Spent(100, 10) if kind in WIRES else Spent()
    assert reply.spent == paid


@pytest.mark.parametrize("kind", list(TeacherKind))
async def test_many_questions_at_once_get_their_own_answers(kind: TeacherKind, good: str) -> None:
    async with open_teacher(kind, good) as teacher, asyncio.TaskGroup() as group:
        asked = [
            (question, group.create_task(teacher.answer(question, 1000)))
            for question in QUESTIONS * 10
        ]
        for question, task in asked:
            question.schema.model_validate_json((await task).text)


@pytest.mark.parametrize("kind", WIRES)
@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("busy", TeacherBusy),
        ("fault", TeacherUnavailable),
        ("dropped", TeacherUnavailable),
        ("slow", TeacherUnavailable),
        ("truncated", TeacherTruncated),
        ("refused", TeacherRefused),
    ],
)
async def test_what_goes_wrong_has_its_own_error(
    kind: TeacherKind, behaviour: str, error: type[TeacherError]
) -> None:
    with teacher_server(f"{behaviour}=1") as url:
        async with open_teacher(kind, url, timeout_s=1.0) as teacher:
            with pytest.raises(TeacherError) as caught:
                await teacher.answer(QUESTIONS[0], 1000)
        assert type(caught.value) is error
        if isinstance(caught.value, TeacherBusy):
            assert caught.value.retry_after_s == RETRY_S
        if error in (TeacherTruncated, TeacherRefused):
            assert caught.value.spent == Spent(100, 10)
        assert calls(url)["asked"] == 1  # the clients don't retry by themselves


@pytest.mark.parametrize("kind", WIRES)
async def test_a_wrong_key_ends_the_run_rather_than_the_sample(
    kind: TeacherKind, good: str
) -> None:
    async with open_teacher(kind, good, key="wrong") as teacher:
        with pytest.raises(TeacherMisconfigured, match="key"):
            await teacher.answer(QUESTIONS[0], 1000)


@pytest.mark.parametrize("kind", WIRES)
async def test_a_teacher_that_is_not_there_may_come_back(kind: TeacherKind) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    async with open_teacher(kind, f"http://127.0.0.1:{port}") as teacher:
        with pytest.raises(TeacherUnavailable):
            await teacher.answer(QUESTIONS[0], 1000)


@pytest.mark.parametrize("kind", WIRES)
def test_a_teacher_without_a_model_name_says_so(kind: TeacherKind) -> None:
    with pytest.raises(TeacherMisconfigured, match="needs a model name"):
        TeacherChoice(kind).make()
