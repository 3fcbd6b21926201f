"""Asks the teacher for one sample: once per question, paced, paid and booked.

Knows retries and money. Must not know what the questions are about.

    an answer that is stored is never asked for again
    429, 5xx, time-outs, broken connections: again after a jittered, doubling pause
    truncated: once more with twice the tokens
    refused: the sample is dead; misconfigured or budget spent: the run ends
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from pydantic import ValidationError

from multiverse_curator.answers import Answer
from multiverse_curator.faults import Fault
from multiverse_curator.pace import Pace
from multiverse_curator.store import CallState, Complaint, Ledger
from multiverse_curator.teachers.contract import (
    Question,
    Reply,
    Teacher,
    TeacherBusy,
    TeacherError,
    TeacherTruncated,
    TeacherUnavailable,
)

A = TypeVar("A", bound=Answer)
CHARACTERS_PER_TOKEN = 3  # on the safe side, for English
RETRYABLE = (TeacherBusy, TeacherUnavailable, TeacherTruncated)


class Ask(Protocol):
    """What a stage sees of all this."""

    async def __call__(self, question: Question, schema: type[A]) -> A:
        """The answer. Fault when it is not of the schema; TeacherError when there is none."""


@dataclass(frozen=True, slots=True)
class Price:
    """Money per million tokens."""

    input: float = 0.0
    output: float = 0.0

    def of(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms the teacher is asked."""

    max_output_tokens: int = 16384
    attempts: int = 6  # of one question
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    price: Price = Price()
    budget: float | None = None


class Asking:
    """All questions of a run go through here; `of` binds one sample."""

    def __init__(
        self,
        teacher: Teacher,
        ledger: Ledger,
        pace: Pace,
        terms: Terms,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.teacher = teacher
        self._ledger = ledger
        self._pace = pace
        self._terms = terms
        self._sleep = sleep

    def of(self, sample_id: int, complaints: dict[str, Complaint]) -> Ask:
        """Questions for one sample. One that was complained about is a new question."""

        async def ask(question: Question, schema: type[A]) -> A:
            names = (f"{question.stage.value}/{name}" for name in (question.name, ""))
            heard = next((complaints[name] for name in names if name in complaints), Complaint())
            question = replace(question, complaint=heard.text)
            key = self._key(question, sample_id, heard.number)
            text = self._ledger.stored_answer(key)
            if text is None:
                text = await self._answer(question, sample_id, key)
            return _parsed(text, question, schema)

        return ask

    def _key(self, question: Question, sample_id: int, complaint: int) -> str:
        what = [self.teacher.name, sample_id, complaint, question.stage, question.name]
        what.append(question.prompt)
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()

    async def _answer(self, question: Question, sample_id: int, key: str) -> str:
        limit = self._terms.max_output_tokens
        pause = self._terms.first_pause_s
        for attempt in range(1, self._terms.attempts + 1):
            try:
                return (await self._call(question, sample_id, key, limit)).text
            except RETRYABLE as error:
                if attempt == self._terms.attempts:
                    raise
                if isinstance(error, TeacherTruncated):
                    if limit > self._terms.max_output_tokens:
                        raise
                    limit *= 2
                    continue
                wait = random.uniform(pause / 2, pause)
                if isinstance(error, TeacherBusy) and error.retry_after_s is not None:
                    wait = error.retry_after_s + random.uniform(0, pause / 2)
                await self._sleep(min(wait, self._terms.longest_pause_s))
                pause = min(2 * pause, self._terms.longest_pause_s)
        raise AssertionError("a loop of at least one attempt")

    async def _call(self, question: Question, sample_id: int, key: str, limit: int) -> Reply:
        tokens = len(question.prompt) // CHARACTERS_PER_TOKEN + 1
        most = self._terms.price.of(tokens, limit)
        await self._pace.wait(tokens + limit)
        call = self._ledger.start_call(key, sample_id, question.stage, most, self._terms.budget)
        try:
            reply = await self.teacher.answer(replace(question, call=str(call)), limit)
        except TeacherError as error:
            note = f"{type(error).__name__}: {error}"
            self._book(
                call,
                key,
                CallState.FAILED,
                error.spent.input_tokens,
                error.spent.output_tokens,
                note,
            )
            raise
        except BaseException:
            self._book(call, key, CallState.LOST, 0, 0, "cancelled")
            raise
        spent = reply.spent
        self._book(
            call, key, CallState.ANSWERED, spent.input_tokens, spent.output_tokens, text=reply.text
        )
        return reply

    def _book(
        self,
        call: int,
        key: str,
        state: CallState,
        input_tokens: int,
        output_tokens: int,
        note: str = "",
        text: str | None = None,
    ) -> None:
        cost = self._terms.price.of(input_tokens, output_tokens)
        self._ledger.end_call(
            call, key, state, spent=(input_tokens, output_tokens), cost=cost, note=note, text=text
        )


def _parsed(text: str, question: Question, schema: type[A]) -> A:
    """JSON of the schema, also where words or a code fence stand around it."""
    begun, end = text.find("{"), text.rfind("}")
    try:
        return schema.model_validate_json(text[begun : end + 1] if 0 <= begun < end else text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        reason = f"{where}: {first['msg']}"
        raise Fault(question.stage, reason, question.name) from None
