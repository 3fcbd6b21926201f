"""`multiverse curate run` is killed anywhere, and goes on where it was."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from multiverse_curator.store import State, local_store
from multiverse_curator.teachers.choice import TeacherKind
from tests.e2e.load import eventually
from tests.integration.curator.served import base_url, calls, teacher_server
from tests.unit.curator.generated import generated

SAMPLES = 16


def command(folder: Path, kind: TeacherKind, url: str) -> list[str]:
    return [
        *(sys.executable, "-m", "multiverse_cli.main", "curate", "run", str(folder / "in.jsonl")),
        *("--store", str(folder / "curate.db"), "--teacher", kind.value, "--model", "scripted"),
        *("--base-url", base_url(kind, url), "--in-flight", "8"),
    ]


ENVIRONMENT = {**os.environ, "OPENAI_API_KEY": "key", "GEMINI_API_KEY": "key"}


def test_stored_answers_are_never_paid_again_and_calls_in_flight_are_lost(tmp_path: Path) -> None:
    kind = TeacherKind.GEMINI
    rows = [source.model_dump_json() for source in generated(SAMPLES, seed=9)]
    (tmp_path / "in.jsonl").write_text("\n".join(rows), "utf-8")
    rng = random.Random(kind.value)
    with teacher_server(latency=0.05) as url:
        for _ in range(2):
            before = calls(url)["asked"]
            until = before + rng.randint(4, 20)
            process = subprocess.Popen(
                command(tmp_path, kind, url),
                env=ENVIRONMENT,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                eventually(lambda until=until: calls(url)["asked"] >= until, "questions", 60)  # type: ignore[misc]
            finally:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
        last = subprocess.run(
            command(tmp_path, kind, url), env=ENVIRONMENT, capture_output=True, check=True
        )
        told = calls(url)
    summary = json.loads(last.stdout.splitlines()[-1])
    lost = summary["calls"].pop("lost")
    assert summary["samples"].get("pending") is None
    assert sum(summary["samples"].values()) == SAMPLES
    assert summary["samples"].get("dead") is None
    # A killed process's call may have been booked before the server saw it.
    assert told["asked"] <= summary["calls"]["answered"] + lost
    assert told["questions"] == summary["calls"]["answered"]  # each question has one answer
    assert told["asked"] - told["questions"] <= lost  # only what was in flight was asked again
    assert 1 <= lost <= 2 * 8
    store = local_store(f"sqlite:///{tmp_path}/curate.db")
    keys = [store.sample(n).source.key for n in store.ids(State.CONVERTED)]
    store.close()
    assert len(set(keys)) == len(keys)


def test_two_runs_on_one_store_are_refused(tmp_path: Path) -> None:
    rows = [source.model_dump_json() for source in generated(4, seed=9)]
    (tmp_path / "in.jsonl").write_text("\n".join(rows), "utf-8")
    with teacher_server(latency=5) as url:
        run = command(tmp_path, TeacherKind.OPENAI, url)
        first = subprocess.Popen(
            run, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            eventually(lambda: calls(url)["most_at_once"] > 0, "a question", 60)
            second = subprocess.run(run, env=ENVIRONMENT, capture_output=True, text=True)
        finally:
            first.kill()
            first.wait()
    assert second.returncode == 1
    assert "another process works on" in second.stderr
