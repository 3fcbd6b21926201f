"""The scripted teacher as a process, and stores and pipelines on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from multiverse_curator.asking import Asking, Terms
from multiverse_curator.pace import LocalPace
from multiverse_curator.pipeline import Pipeline, Rules
from multiverse_curator.store import Store
from multiverse_curator.teachers.choice import TeacherChoice, TeacherKind
from multiverse_curator.teachers.contract import Teacher

WIRES = (TeacherKind.OPENAI, TeacherKind.GEMINI)


class TeacherProcess:
    """The scripted teacher; one that is started again is at the same address if it has a port."""

    def __init__(
        self, behaviour: str = "valid=1", *, latency: float = 0.0, **options: object
    ) -> None:
        self.latency = latency
        self._options = {"behaviour": behaviour, **options}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.integration.curator.teacher_server"]
        for name, value in {**self._options, "latency": self.latency}.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()
        self._process = None


@contextmanager
def teacher_server(behaviour: str = "valid=1", **options: Any) -> Iterator[str]:
    """Its address, while it runs."""
    teacher = TeacherProcess(behaviour, **options)
    teacher.start()
    try:
        yield teacher.url
    finally:
        teacher.stop()


def base_url(kind: TeacherKind, url: str) -> str:
    return f"{url}/v1" if kind is TeacherKind.OPENAI else url


def teacher_at(kind: TeacherKind, url: str, timeout_s: float = 10.0, key: str = "key") -> Teacher:
    choice = TeacherChoice(
        kind, "scripted", base_url(kind, url), api_key=key, timeout_s=timeout_s, thinking_budget=0
    )
    return choice.make()


def pipeline_of(
    store: Store, teacher: Teacher, terms: Terms | None = None, rules: Rules | None = None
) -> Pipeline:
    quick = Terms(first_pause_s=0.01, longest_pause_s=0.05)
    asking = Asking(teacher, store.ledger, LocalPace(None, None), terms or quick)
    return Pipeline(store, asking, rules or Rules())


def calls(url: str) -> dict[str, Any]:
    told: dict[str, Any] = httpx.get(f"{url}/calls").json()
    return told
