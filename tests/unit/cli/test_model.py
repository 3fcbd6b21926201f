"""`multiverse model check` and `add-tags`: reports, statuses, and that one passes the other."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from multiverse_cli.main import main

TINY = Path(__file__).parents[3] / "models" / "multiverse-tiny"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(TINY, tmp_path / "tiny"))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit status of the command."""
    monkeypatch.setattr(sys, "argv", ["multiverse", "model", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


class Check:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, directory: Path) -> dict[str, Any]:
        """The report as JSON, which must be one line and agree with the status."""
        self._capsys.readouterr()
        status = run(self._monkeypatch, "check", str(directory), "--json")
        [line] = self._capsys.readouterr().out.splitlines()
        report: dict[str, Any] = json.loads(line)
        assert status == (0 if report["passed"] else 1)
        return report

    def refusals(self, directory: Path) -> dict[str, str]:
        """Message by check."""
        report = self(directory)
        found = [entry for entry in report["findings"] if entry["verdict"] == "refused"]
        assert report["passed"] == (not found)
        return {entry["check"]: entry["message"] for entry in found}


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    return Check(monkeypatch, capsys)


def test_the_model_of_the_repository_passes_every_check(check: Check) -> None:
    findings = check(TINY)["findings"]
    assert [(entry["check"], entry["verdict"]) for entry in findings] == [
        ("files", "ok"),
        ("tokenizer", "note"),  # it knows few characters
        ("dialect", "ok"),
        ("positions", "ok"),
        ("tags", "ok"),
        ("vocabulary", "ok"),
        ("end", "ok"),
        ("template", "ok"),
    ]


def test_a_report_for_people_says_each_check_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny: Path
) -> None:
    assert run(monkeypatch, "check", str(tiny)) == 0
    assert "canbeserved" in "".join(capsys.readouterr().out.split())
    (tiny / "multiverse.json").unlink()
    assert run(monkeypatch, "check", str(tiny)) == 1
    told = "".join(capsys.readouterr().out.split())
    assert "cannotbeserved" in told
    assert "add-tags" in told


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("config.json", None, "files"),
        ("config.json", b"{", "vocabulary"),
        ("config.json", b"{}", "vocabulary"),
        ("tokenizer.json", None, "files"),
        ("tokenizer.json", b"{}", "tokenizer"),
        ("tokenizer.json", b"\xff", "tokenizer"),
        ("multiverse.json", None, "files"),
        ("multiverse.json", b'{"dialect": "pasta", "prompt_suffix": ""}', "dialect"),
        ("multiverse.json", b'{"dialect": "none", "prompt_suffix": ""}', "dialect"),
        ("model.safetensors", None, "files"),
        ("model.safetensors", b"cut", "files"),
        ("model.safetensors.index.json", b'{"weight_map": {"x": "part-9"}}', "files"),
        ("tokenizer_config.json", b"[]", "files"),
        ("generation_config.json", b"[]", "end"),
        ("generation_config.json", b'{"eos_token_id": 96}', "end"),
        ("generation_config.json", b'{"eos_token_id": 3}', "end"),
        ("chat_template.jinja", None, "template"),
        ("chat_template.jinja", b"{% if %}", "template"),
        ("chat_template.jinja", b"\xff", "template"),
        ("chat_template.jinja", b"{{ messages[0].content[:3] }}", "template"),
    ],
)
def test_what_is_wrong_is_refused_under_its_check(
    check: Check, tiny: Path, name: str, content: bytes | None, where: str
) -> None:
    if content is None:
        (tiny / name).unlink()
    else:
        (tiny / name).write_bytes(content)
    assert where in check.refusals(tiny)


def test_a_vocabulary_that_is_larger_than_the_model_is_refused(check: Check, tiny: Path) -> None:
    vocabulary = json.loads((tiny / "tokenizer.json").read_text())
    vocabulary["model"]["vocab"]["more"] = 96
    edit(tiny / "tokenizer.json", **vocabulary)
    assert "97 tokens" in check.refusals(tiny)["vocabulary"]


def test_a_tokenizer_that_fails_on_unknown_text_is_refused(check: Check, tiny: Path) -> None:
    model = json.loads((tiny / "tokenizer.json").read_text())["model"]
    edit(tiny / "tokenizer.json", model={**model, "unk_token": "<nowhere>"})
    assert "[UNK]" in check.refusals(tiny)["tokenizer"]


def test_the_shifted_positions_of_a_dialect_are_a_note(check: Check, tiny: Path) -> None:
    edit(tiny / "multiverse.json", dialect="multiverse-qwen")
    report = check(tiny)
    [note] = [entry for entry in report["findings"] if entry["check"] == "positions"]
    assert note["verdict"] == "note"
    assert "free positions" in note["message"]
    assert report["passed"]


def test_another_dialect_than_the_models_is_refused_with_tag_and_remedy(
    check: Check, tiny: Path
) -> None:
    edit(tiny / "multiverse.json", dialect="npr")
    findings = [entry for entry in check(tiny)["findings"] if entry["check"] == "tags"]
    assert {entry["tag"] for entry in findings} >= {"<guideline>", "</step>"}
    assert all(f"add-tags {tiny}" in entry["remedy"] for entry in findings)


def test_what_add_tags_writes_passes_the_check(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    check: Check,
    tiny: Path,
    tmp_path: Path,
) -> None:
    (tiny / "multiverse.json").unlink()
    out = tmp_path / "new folder"
    arguments = ("--out", str(out), "--dialect", "threadweaver")
    monkeypatch.setattr(sys, "argv", ["multiverse", "model", "add-tags", str(tiny), *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code
    [line] = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert told["dialect"] == "threadweaver"
    assert list(told["new"]) == ["<Outlines>", "</Outlines>", "<Thread>", "</Thread>"]
    assert list(told["kept"]) == ["<Parallel>", "<Outline>", "</Outline>", "</Parallel>"]
    assert told["vocab_size"] == 100
    assert check(out)["passed"]


def test_a_copy_that_would_overwrite_something_is_one_line_of_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny: Path
) -> None:
    assert run(monkeypatch, "add-tags", str(tiny), "--out", str(tiny)) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "exists" in line
