"""A thread of a worker, where stages are worked on: an event loop, and its teachers' clients.

Clients live as long as their loop, so a thread keeps its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from multiverse_curator.service.metrics import WorkerMetrics
from multiverse_curator.service.teachers import TeacherEntry
from multiverse_curator.teachers.contract import Question, Reply, Teacher, TeacherError

T = TypeVar("T")


class MeteredTeacher:
    """A teacher whose calls are counted."""

    def __init__(self, teacher: Teacher, metrics: WorkerMetrics, label: str) -> None:
        self._teacher = teacher
        self._metrics = metrics
        self._label = label

    @property
    def name(self) -> str:
        return self._teacher.name

    async def answer(self, question: Question, max_output_tokens: int) -> Reply:
        begun, end = time.monotonic(), "cancelled"
        try:
            reply = await self._teacher.answer(question, max_output_tokens)
            end = "answered"
            return reply
        except TeacherError as error:
            end = type(error).__name__.removeprefix("Teacher").lower()
            raise
        finally:
            self._metrics.calls.labels(self._label, end).inc()
            self._metrics.call_seconds.labels(self._label).observe(time.monotonic() - begun)

    async def close(self) -> None:
        await self._teacher.close()


class Bench:
    """Use from one thread, but for `close`, which comes when that thread has ended."""

    def __init__(self, entries: dict[str, TeacherEntry], metrics: WorkerMetrics) -> None:
        self._entries = entries
        self._metrics = metrics
        self._runner = asyncio.Runner()
        self._teachers: dict[str, Teacher] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def teacher(self, name: str) -> Teacher:
        """TeacherMisconfigured when it can't be made."""
        if name not in self._teachers:
            teacher = self._entries[name].make()
            self._teachers[name] = MeteredTeacher(teacher, self._metrics, name)
        return self._teachers[name]

    def close(self) -> None:
        for teacher in self._teachers.values():
            self._runner.run(teacher.close())
        self._runner.close()


class Benches:
    """One for each thread that asks."""

    def __init__(self, entries: dict[str, TeacherEntry], metrics: WorkerMetrics) -> None:
        self._entries = entries
        self._metrics = metrics
        self._mine = threading.local()
        self._all: list[Bench] = []

    def mine(self) -> Bench:
        bench: Bench | None = getattr(self._mine, "bench", None)
        if bench is None:
            bench = self._mine.bench = Bench(self._entries, self._metrics)
            self._all.append(bench)
        return bench

    def close(self) -> None:
        for bench in self._all:
            bench.close()
