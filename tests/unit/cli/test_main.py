"""The command's errors: one line on stderr, and a status that scripts can see."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from multiverse_cli.main import main
from multiverse_shared.api_keys import Keyring

TINY = Path(__file__).parents[3] / "models" / "multiverse-tiny"


@pytest.fixture
def nobody() -> str:
    """The address of a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit status of the command."""
    monkeypatch.setattr(sys, "argv", ["multiverse", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert isinstance(caught.value.code, int)
    return caught.value.code


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What stands on stderr, which must be one line."""
    [line] = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("multiverse: ")
    return line


def test_a_prompt_file_with_a_bad_line_is_one_line_of_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, nobody: str
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "x"}\n{"question": "y"}\n', "utf-8")
    assert run(monkeypatch, "generate", "--input", str(path), "--url", nobody) == 1
    assert f"{path}:2" in error_line(capsys)


@pytest.mark.parametrize("name", ["nowhere.jsonl", "."], ids=["missing", "a folder"])
def test_a_prompt_file_that_cannot_be_read_is_one_line_of_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    nobody: str,
    name: str,
) -> None:
    path = tmp_path / name
    assert run(monkeypatch, "generate", "--input", str(path), "--url", nobody) == 1
    assert str(path) in error_line(capsys)


def test_an_output_that_cannot_be_written_is_one_line_of_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, nobody: str
) -> None:
    path = tmp_path / "missing" / "out.jsonl"
    assert run(monkeypatch, "generate", "x", "--output", str(path), "--url", nobody) == 1
    assert str(path) in error_line(capsys)


def test_a_chat_without_a_router_is_one_line_of_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], nobody: str
) -> None:
    assert run(monkeypatch, "chat", "x", "--url", nobody) == 1
    assert "multiverse serve" in error_line(capsys)


def test_prompts_that_fail_are_lines_of_the_output_and_the_status_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], nobody: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["multiverse", "generate", "x", "--url", nobody])
    try:
        main()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    row, totals = map(json.loads, capsys.readouterr().out.splitlines())
    assert row["prompt"] == "x"
    assert "no router" in row["error"]
    assert (totals["requests"], totals["failed"]) == (1, 1)
    assert status != 0


@pytest.mark.parametrize("arguments", [["generate"], ["generate", "x", "--input", "y"]])
def test_a_prompt_and_a_file_are_one_or_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert "only one" in capsys.readouterr().err


@pytest.mark.parametrize("folder", ["nowhere", "."])
def test_a_folder_without_a_model_is_one_line_of_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: str
) -> None:
    out = tmp_path / "out.gguf"
    path = tmp_path / folder
    assert run(monkeypatch, "model", "export", str(path), "--out", str(out)) == 1
    captured = capsys.readouterr().err
    assert str(path) in captured
    assert "Traceback" not in captured
    assert not out.exists()


def test_serve_hands_a_named_gguf_and_a_type_to_its_worker(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"nothing")
    options = ("--weights", str(tmp_path / "bad.gguf"), "--weight-type", "q4_0")
    assert run(monkeypatch, "serve", "--model", str(TINY), *options) == 1
    said = capfd.readouterr().err
    assert "weight_type is ignored" in said
    assert f"can't load {tmp_path / 'bad.gguf'}" in said
    assert "the worker ended with status 2" in said


def test_a_new_key_and_its_line_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "key", "new", "alice", "--concurrency", "3") == 0
    key, line = capsys.readouterr().out.split("\n")[:2]
    known = Keyring.parse([line], "the output").find(key)
    assert known
    assert (known.name, known.allowance.concurrency) == ("alice", 3)


def test_a_name_that_no_key_can_have_is_one_line_of_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "key", "new", "al ice") == 1
    assert "al ice" in error_line(capsys)
