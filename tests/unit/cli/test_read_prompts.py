"""Prompts from a JSONL file; what is wrong is said with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiverse_cli.errors import InputError
from multiverse_cli.generate import read_prompts


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "prompts.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_the_prompts_come_in_the_order_of_the_lines(tmp_path: Path) -> None:
    path = write(tmp_path, '{"prompt": "one"}\n\n{"prompt": "zwei ü", "id": 2}\n  \n{"prompt": ""}')
    assert read_prompts(path) == ["one", "zwei ü", ""]


def test_an_empty_file_has_no_prompts(tmp_path: Path) -> None:
    assert read_prompts(write(tmp_path, "")) == []


@pytest.mark.parametrize(
    "line",
    ['{"prompt": ', "one", "[]", '["prompt"]', '"prompt"', "null", "5", "{}", '{"prompt": 5}'],
)
def test_a_line_that_is_no_prompt_is_named_with_its_file(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, f'{{"prompt": "good"}}\n\n{line}\n')
    with pytest.raises(InputError) as caught:
        read_prompts(path)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert '"prompt"' in str(caught.value)


def test_a_line_that_is_not_utf_8_is_named_with_its_file(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"prompt": "good"}\n{"prompt": "\xff"}\n')
    with pytest.raises(InputError) as caught:
        read_prompts(path)
    assert str(caught.value).startswith(f"{path}:2: ")
