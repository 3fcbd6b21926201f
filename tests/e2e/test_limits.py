"""Limits shape an answer and never fail it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.e2e.answers import FLAT, NESTED, Ask, Event, Tree, chat, events_of, whole

BUDGETS = [1, 2, 3, 7, 14, 21, 28, 36, 46, 58, 72, 90, 120]


def at_once(client: httpx.Client, prompt: str, name: str, values: list[int]) -> list[list[Event]]:
    """The answers for each value of one option."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda value: events_of(client, prompt, **{name: value}), values))


def plan_was_the_end(tree: Tree) -> bool:
    """The root stopped behind a plan whose fork it could not pay."""
    last = tree.paths["0"].parts[-1]
    return isinstance(last, dict) and last["delta"].endswith("</Goal>")


@pytest.mark.parametrize("prompt", [FLAT, NESTED])
def test_no_answer_is_longer_than_its_budget_and_its_reason_says_which_end_it_was(
    client: httpx.Client, prompt: str
) -> None:
    for most, events in zip(BUDGETS, at_once(client, prompt, "max_tokens", BUDGETS), strict=True):
        used, reason = events[-2]["completion_tokens"], events[-1]["reason"]
        tree = Tree(events)
        assert used <= most
        assert tree.tokens() == used
        if reason == "stop":
            assert used < most, "an answer that used up its budget was cut"
        else:
            assert reason == "length"
            assert used == most or plan_was_the_end(tree), f"{used} of {most} tokens"


def test_no_chain_is_longer_than_the_critical_budget(client: httpx.Client) -> None:
    values = [1, 7, 20, 33, 50, 70]
    answers = at_once(client, NESTED, "max_critical_tokens", values)
    for most, events in zip(values, answers, strict=True):
        assert Tree(events).longest_chain() <= most
        assert events[-1]["reason"] in ("stop", "length")


def test_a_critical_budget_lets_paths_write_more_in_all(told: Ask) -> None:
    events = told(NESTED, max_critical_tokens=50)
    assert Tree(events).tokens() > 50


def test_no_path_is_longer_than_a_path_may_be(told: Ask) -> None:
    tree = Tree(told(NESTED, max_path_tokens=8))
    assert len(tree.paths) > 1
    for name in tree.paths:
        if name.count(".") == 1:
            assert sum(len(event["token_ids"]) for event in tree.texts(name)) <= 8


@pytest.mark.parametrize("most", [1, 2])
def test_no_fork_is_wider_than_it_may_be(told: Ask, most: int) -> None:
    tree = Tree(told(FLAT, max_paths=most))
    assert tree.forks()["0"] == [most]


def test_depth_zero_forks_nowhere(told: Ask) -> None:
    assert list(Tree(told(NESTED, max_depth=0)).paths) == ["0"]


def test_depth_one_forks_in_the_root_only(told: Ask) -> None:
    tree = Tree(told(NESTED, max_depth=1))
    assert tree.forks()["0"]
    assert not any(tree.forks()[name] for name in tree.paths if name != "0")


def test_a_passed_deadline_is_the_reason_of_the_end(client: httpx.Client) -> None:
    events = events_of(client, FLAT, deadline_s=0.0001)
    assert [event["type"] for event in events[-2:]] == ["usage", "finish"]
    assert events[-1]["reason"] == "deadline"
    answer = whole(client, FLAT, deadline_s=0.0001)
    assert answer["finish_reason"] == "deadline"
    completion = chat(client, FLAT, multiverse={"deadline_s": 0.0001})
    assert completion["choices"][0]["finish_reason"] == "length"
    assert completion["multiverse"]["finish_reason"] == "deadline"


def test_a_deadline_that_is_kept_changes_nothing(told: Ask) -> None:
    at_leisure = told(FLAT, parallel="auto")
    assert Tree(told(FLAT, deadline_s=60)).ids() == Tree(at_leisure).ids()
