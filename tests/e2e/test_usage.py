"""Usage, derived again from the ids in the events."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.e2e.answers import FLAT, NESTED, PROMPTS, Ask, AskWhole, Event, Tree, events_of


def check(events: list[Event]) -> None:
    """Every figure of the usage event that the other events tell, too."""
    tree, usage = Tree(events), events[-2]
    assert usage["type"] == "usage"
    assert usage["prompt_tokens"] == events[0]["prompt_tokens"]
    assert usage["completion_tokens"] == tree.tokens()
    assert usage["written_tokens"] == tree.tokens("written")
    assert usage["critical_path_tokens"] == tree.longest_chain()
    ratio = tree.tokens() / tree.longest_chain() if tree.tokens() else 1.0
    assert usage["parallelism"] == pytest.approx(ratio, abs=5e-5)
    assert 0 <= usage["cached_tokens"] <= usage["prompt_tokens"]


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("parallel", ["auto", "serial", "off"])
def test_usage_is_what_the_ids_say(told: Ask, prompt: str, parallel: str) -> None:
    check(told(prompt, parallel=parallel))


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": 1},
        {"max_tokens": 45},
        {"max_path_tokens": 8},
        {"max_paths": 2},
        {"max_critical_tokens": 50},
        {"temperature": 1.5, "seed": 3},
    ],
    ids=str,
)
def test_usage_is_what_the_ids_say_under_limits(told: Ask, options: dict[str, Any]) -> None:
    check(told(NESTED, **options))


def test_forks_are_what_makes_an_answer_parallel(told: Ask) -> None:
    assert told(FLAT, parallel="auto")[-2]["parallelism"] > 1.2
    assert told(FLAT, parallel="off")[-2]["parallelism"] == 1.0


def test_all_apis_report_the_same_usage(
    told: Ask, told_whole: AskWhole, told_chat: AskWhole
) -> None:
    usage = told(NESTED, parallel="auto")[-2]
    other = told_whole(NESTED)["usage"]
    completion = told_chat(NESTED)
    for name in ("prompt_tokens", "completion_tokens"):
        assert usage[name] == other[name] == completion["usage"][name]
    for name in ("written_tokens", "critical_path_tokens", "parallelism"):
        assert usage[name] == other[name] == completion["multiverse"][name]
    total = completion["usage"]["prompt_tokens"] + completion["usage"]["completion_tokens"]
    assert completion["usage"]["total_tokens"] == total


def test_a_prompt_asked_again_is_found_in_the_cache(client: httpx.Client) -> None:
    prompt = "max a:1+1+1+1,b:2+2+2+2,c:3+3+3+3,?"
    events_of(client, prompt, max_tokens=4)
    again = events_of(client, prompt, max_tokens=4)[-2]
    assert again["cached_tokens"] >= again["prompt_tokens"] - 1


def test_paths_and_joins_reuse_what_stands_before_them(told: Ask) -> None:
    usage = told(FLAT, parallel="auto")[-2]
    assert usage["reused_tokens"] > 3 * usage["prompt_tokens"]
