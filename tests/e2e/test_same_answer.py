"""One answer, told in every way that the router has, is the same answer."""

from __future__ import annotations

import httpx
import pytest

from tests.e2e.answers import (
    FLAT,
    PROMPTS,
    Ask,
    AskWhole,
    Tree,
    chat,
    chat_chunks,
    content,
    whole,
)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_streamed_whole_and_openai_answers_are_the_same_text(
    told: Ask, told_whole: AskWhole, told_chat: AskWhole, client: httpx.Client, prompt: str
) -> None:
    text = Tree(told(prompt, parallel="auto")).text()
    assert text
    native = told_whole(prompt)
    assert native["text"] == text
    assert Tree(native["events"]).text() == text
    assert told_chat(prompt)["choices"][0]["message"]["content"] == text
    assert content(chat_chunks(client, prompt)) == text


def test_stripped_answers_are_the_models_own_text(told: Ask, client: httpx.Client) -> None:
    tree = Tree(told(FLAT, parallel="auto"))
    text = tree.text("text")
    assert text != tree.text()
    assert whole(client, FLAT, tags="strip")["text"] == text
    strip = {"multiverse": {"tags": "strip"}}
    assert chat(client, FLAT, **strip)["choices"][0]["message"]["content"] == text
    assert content(chat_chunks(client, FLAT, **strip)) == text


@pytest.mark.parametrize("prompt", PROMPTS)
def test_serial_gives_the_same_tree_and_the_same_tokens(told: Ask, prompt: str) -> None:
    at_once, serial = (Tree(told(prompt, parallel=mode)) for mode in ("auto", "serial"))
    assert serial.ids() == at_once.ids()
    assert serial.forks() == at_once.forks()


@pytest.mark.parametrize("prompt", PROMPTS)
def test_serial_runs_one_path_at_a_time(told: Ask, prompt: str) -> None:
    said = [
        event["path"]
        for event in told(prompt, parallel="serial")
        if event["type"] == "text" and event["kind"] != "written" and event["path"].count(".") == 1
    ]
    assert len(set(said)) > 1
    assert said == sorted(said, key=lambda name: int(name.split(".")[1]))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_off_never_forks_and_writes_no_tags(told: Ask, prompt: str) -> None:
    tree = Tree(told(prompt, parallel="off"))
    assert list(tree.paths) == ["0"]
    assert tree.tokens("tag", "written") == 0
    assert "<" not in tree.text()
