"""The `multiverse` command against a real router and worker."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from multiverse_cli.stack import Stack
from tests.e2e.answers import FLAT, Ask, Tree
from tests.e2e.processes import COMMAND

SUMMARY = {"requests", "failed", "tokens", "parallelism", "seconds", "tokens_per_s"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "160", "NO_COLOR": "1"}
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=100, env=environment
    )


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_generate_with_a_model_serves_it_and_ends_with_a_summary(model: Path) -> None:
    row, summary = rows(run("generate", FLAT, "--model", str(model)))
    assert row["prompt"] == FLAT
    assert "#" in row["text"]
    assert row["finish_reason"] == "stop"
    assert set(summary) == SUMMARY
    assert (summary["requests"], summary["failed"]) == (1, 0)
    assert summary["tokens"] == row["usage"]["completion_tokens"]
    assert summary["parallelism"] > 1


def test_generate_answers_a_file_in_its_order_and_goes_on_after_a_failure(
    stack: Stack, tmp_path: Path, told: Ask
) -> None:
    prompts = ["max a:3+4,b:9-4,?", "1" * 3000, FLAT, "min a:9-1,b:8,?"]
    source, target = tmp_path / "prompts.jsonl", tmp_path / "answers.jsonl"
    source.write_text("".join(json.dumps({"prompt": p}) + "\n" for p in prompts), "utf-8")
    done = run("generate", "--input", str(source), "--output", str(target), "--url", stack.url)
    assert json.loads(done.stdout)["failed"] == 1
    answers = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert [answer["prompt"] for answer in answers] == prompts
    assert "context" in answers[1]["error"]
    assert answers[2]["text"] == Tree(told(FLAT, parallel="auto")).text()


def test_chat_shows_the_paths_side_by_side_and_a_summary(stack: Stack, told: Ask) -> None:
    done = run("chat", FLAT, "--url", stack.url)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert f"> {FLAT}" in lines[0]
    [titles] = [line for line in lines if "path 0.1" in line]
    assert "path 0.2" in titles
    assert "path 0.3" in titles
    assert any("ended: stop" in line for line in lines)
    usage = told(FLAT, parallel="auto")[-2]
    assert lines[-1].startswith(f"{usage['completion_tokens']} tokens, ")
    assert f"parallelism {usage['parallelism']:.2f}" in lines[-1]
    assert lines[-1].endswith("finish: stop")


def test_a_refused_question_is_one_line_of_error(stack: Stack) -> None:
    done = run("chat", FLAT, "--url", stack.url, "--max-tokens", "1000000000")
    assert done.returncode == 1
    assert done.stderr.startswith("multiverse: ")
    assert "max_tokens" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_model_export_writes_a_gguf_file(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "model.gguf"
    [summary] = rows(run("model", "export", str(model), "--out", str(out), "--type", "f16"))
    assert summary == {"out": str(out), "bytes": out.stat().st_size, "type": "f16"}
    assert out.read_bytes()[:4] == b"GGUF"
