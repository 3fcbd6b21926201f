"""`multiverse eval`: what it refuses, and what it does without a server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from multiverse_cli.main import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit status of the command."""
    monkeypatch.setattr(sys, "argv", ["multiverse", "eval", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "nothing", "--url", "http://127.0.0.1:9"], "neither a file nor generated"),
        (["run", "generated", "--url", "x", "--family", "poem"], "no task family 'poem'"),
        (["run", "aime24", "--url", "x", "--data", "missing.jsonl"], "missing.jsonl"),
        (["run", "aime24", "--url", "x", "--family", "eval"], "for generated tasks"),
        (["run", "generated", "--model", "missing"], "no multiverse.json"),
        (["table2", "--model", "missing", "--twin", "missing"], "no multiverse.json"),
        (["compare", "--arm", "nonsense"], "NAME=DIRECTORY"),
        (["compare", "--arm", "a=missing,speed=high"], "'speed=high'"),
        (["compare", "--arm", "a=x", "--arm", "a=y"], "two arms have the name 'a'"),
    ],
)
def test_what_can_not_be_asked_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    told: str,
    tmp_path: Path,
) -> None:
    assert run(monkeypatch, *arguments, "--out", str(tmp_path)) == 1
    [line] = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("multiverse: ")
    assert told in line


def test_recorded_outputs_are_graded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outputs, references = tmp_path / "outputs.jsonl", tmp_path / "references.jsonl"
    rows = [
        {"id": "a/1", "prompt": "Solve: 1+1", "output": "\\boxed{2}"},
        {"id": "a/2", "prompt": "Solve: 1+1", "output": "\\boxed{3}"},
    ]
    outputs.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    references.write_text(json.dumps({"problem": "1+1", "answer": "2"}), "utf-8")
    assert run(monkeypatch, "grade", str(outputs), "--references", str(references)) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["a"]["right"], figures["a"]["wrong"]) == (1, 1)
