"""Chats of several turns: earlier answers keep their blocks, and their KV is found again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from multiverse_router.history import HistoryReader
from multiverse_shared.dialect import load_dialect
from multiverse_shared.grammar import Grammar
from multiverse_shared.limits import Limits
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Block, Context, Text, normalise
from tests.e2e.answers import FLAT, NESTED, Ask, Tree, chat_body, events_of, whole

CHAT = "/v1/chat/completions"
SMALL = "max a:7+5,b:4+9,?"
SUFFIX = " in parallel"
Body = dict[str, Any]
Message = dict[str, Any]
Tell = Callable[[Body], Message]
Size = Callable[[str], int]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def text_of(answer: Body) -> str:
    text: str = answer["choices"][0]["message"]["content"]
    return text


def by_text(answer: Body) -> Message:
    """An answer as any client of the API sends it back."""
    return {"role": "assistant", "content": text_of(answer)}


def by_context(answer: Body) -> Message:
    return {"role": "assistant", "multiverse": {"context": answer["multiverse"]["context"]}}


def ask(
    client: httpx.Client, messages: list[Message], max_tokens: int = 400, **options: Any
) -> Body:
    options = {"return_context": True, **options}
    body = {"messages": messages, "temperature": 0, "max_tokens": max_tokens, "multiverse": options}
    response = client.post(CHAT, json=body)
    assert response.status_code == 200, response.text
    answer: Body = response.json()
    return answer


def prompt_tokens(answer: Body) -> int:
    return int(answer["usage"]["prompt_tokens"])


def cached(answer: Body) -> int:
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def all_tokens(answer: Body) -> int:
    return int(answer["usage"]["total_tokens"])


@pytest.fixture(scope="module")
def size(model: Path) -> Size:
    """Tokens of a plain text."""
    tokenizer = TextTokenizer.from_directory(model)
    return lambda text: len(tokenizer.encode(text))


@pytest.fixture(scope="module")
def answers(client: httpx.Client) -> dict[str, Body]:
    """Answers with blocks, each to a question alone."""
    found = {question: ask(client, [user(question)]) for question in (FLAT, NESTED, SMALL)}
    for answer in found.values():
        assert answer["multiverse"]["parallelism"] > 1
        assert "</Parallel>" in text_of(answer)
    return found


def turns(answers: dict[str, Body], tell: Tell) -> list[Message]:
    """A chat of their questions and answers, told as `tell` has it."""
    return list(chain(*([user(asked), tell(answer)] for asked, answer in answers.items())))


def served(tree: Tree, path: str = "0") -> Context:
    """The tree that the events of an answer tell."""
    return tuple(
        Block(tuple(served(tree, child) for child in part))
        if isinstance(part, list)
        else Text(tuple(part["token_ids"]))
        for part in tree.paths[path].parts
    )


@pytest.mark.parametrize("question", [FLAT, NESTED, SMALL])
def test_the_text_of_an_answer_is_read_into_the_tree_that_was_served(
    told: Ask, model: Path, question: str
) -> None:
    tree = Tree(told(question, parallel="auto"))
    tokenizer = TextTokenizer.from_directory(model)
    reader = HistoryReader(Grammar.bind(load_dialect("multiverse"), tokenizer), Limits(), 2000)
    assert any(isinstance(item, Block) for item in served(tree))
    assert reader.read(tree.text()) == normalise(served(tree))


# -- from turn to turn ----------------------------------------------------------------------------


@pytest.mark.parametrize("tell", [by_text, by_context])
@pytest.mark.parametrize("question", [FLAT, NESTED])
def test_the_next_turn_finds_the_answer_with_its_blocks_in_the_cache(
    client: httpx.Client, size: Size, tell: Tell, question: str
) -> None:
    first = ask(client, [user(question)])
    assert first["multiverse"]["parallelism"] > 1
    second = ask(client, [user(question), tell(first), user(SMALL)], max_tokens=1)
    assert prompt_tokens(second) == all_tokens(first) + size(SMALL + SUFFIX)
    assert cached(second) >= all_tokens(first)


def test_each_turn_of_a_chat_by_signed_contexts_finds_all_before_it(client: httpx.Client) -> None:
    messages: list[Message] = []
    told: list[Body] = []
    for question in (FLAT, NESTED, SMALL):
        messages.append(user(question))
        told.append(ask(client, messages))
        messages.append(by_context(told[-1]))
    for before, after in pairwise(told):
        assert cached(after) >= all_tokens(before)
    assert cached(told[0]) < cached(told[1]) < cached(told[2])


def test_three_turns_by_text_and_by_signed_context_are_one_and_the_same_prompt(
    client: httpx.Client, answers: dict[str, Body]
) -> None:
    by_texts, by_contexts = (turns(answers, tell) for tell in (by_text, by_context))
    last = 0
    for size in (1, 3, 5):
        text = ask(client, by_texts[:size], max_tokens=1)
        context = ask(client, by_contexts[:size], max_tokens=1)
        assert prompt_tokens(context) == prompt_tokens(text)
        assert cached(context) >= prompt_tokens(context) - 1
        assert cached(text) >= last
        last = prompt_tokens(text)


def test_off_goes_on_from_answers_with_blocks(
    client: httpx.Client, size: Size, answers: dict[str, Body]
) -> None:
    first = answers[FLAT]
    ask(client, [user(FLAT)], max_tokens=200)
    second = ask(client, [user(FLAT), by_text(first), user("2+2")], parallel="off")
    assert prompt_tokens(second) == all_tokens(first) + size("2+2")
    assert cached(second) >= all_tokens(first)
    assert second["multiverse"]["parallelism"] == 1.0


# -- what stays text ------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["user", "system", "assistant"])
def test_only_a_well_formed_answer_of_an_assistant_is_a_tree(
    client: httpx.Client, size: Size, answers: dict[str, Body], role: str
) -> None:
    well = text_of(answers[NESTED])
    generated = answers[NESTED]["usage"]["completion_tokens"]
    tree = generated if role == "assistant" else size(well)
    for text, tokens in ((well, tree), (well + "</Path>", size(well + "</Path>"))):
        messages = [{"role": role, "content": text}, user("x")]
        body = ask(client, messages, max_tokens=1, parallel="off")
        assert prompt_tokens(body) == 1 + tokens + size("x")
    assert generated < size(well)


def test_an_answer_without_its_tags_is_text(client: httpx.Client, size: Size) -> None:
    answer = ask(client, [user(FLAT)], tags="strip")
    second = ask(client, [by_text(answer), user("x")], max_tokens=1, parallel="off")
    assert prompt_tokens(second) == 1 + size(text_of(answer)) + size("x")


# -- where a context stands, and which are taken --------------------------------------------------


def test_a_context_comes_only_when_it_is_asked_for(client: httpx.Client) -> None:
    assert "context" not in ask(client, [user(SMALL)], return_context=False)["multiverse"]
    assert "context" not in events_of(client, SMALL)[-1]


def test_every_api_gives_a_context_that_every_api_takes(
    client: httpx.Client, size: Size, answers: dict[str, Body]
) -> None:
    body = chat_body(SMALL, stream=True, multiverse={"return_context": True})
    response = client.post(CHAT, json=body)
    *_, last, done = response.text.strip().split("\n\n")
    assert done == "data: [DONE]"
    streamed = httpx.Response(200, content=last.removeprefix("data: ")).json()["multiverse"]
    native = events_of(client, SMALL, return_context=True)[-1]
    gathered = whole(client, SMALL, return_context=True)["events"][-1]
    known = [said["context"] for said in (streamed, native, gathered)]
    known.append(answers[SMALL]["multiverse"]["context"])
    prompts = set()
    for context in known:
        said = {"role": "assistant", "content": "ignored", "multiverse": {"context": context}}
        messages = [user(SMALL), said, user(FLAT)]
        prompts.add(prompt_tokens(ask(client, messages, max_tokens=1)))
        answer = client.post(
            "/v1/generate", json={"messages": messages, "max_tokens": 1, "stream": False}
        )
        prompts.add(answer.json()["usage"]["prompt_tokens"])
    assert prompts == {all_tokens(answers[SMALL]) + size(FLAT + SUFFIX)}


@pytest.mark.parametrize("path", [CHAT, "/v1/generate"])
@pytest.mark.parametrize("damage", ["changed", "cut", "garbage", "too large", "empty"])
def test_any_other_context_is_refused_by_its_place(
    client: httpx.Client, answers: dict[str, Body], path: str, damage: str
) -> None:
    good = answers[SMALL]["multiverse"]["context"]
    context = {
        "changed": good[:60] + ("A" if good[60] != "A" else "B") + good[61:],
        "cut": good[:-4],
        "garbage": "é{}\0",
        "too large": good + "A" * (1 << 20),
        "empty": "",
    }[damage]
    said = {"role": "assistant", "content": "fine", "multiverse": {"context": context}}
    response = client.post(path, json={"messages": [user("x"), said, user("y")]})
    assert response.status_code == 400
    error = response.json()["error"]
    place = "messages[1]" if path == CHAT else "messages.1"
    assert error["param"] == f"{place}.multiverse.context"
    assert error["param"] in error["message"]
