"""The native stream: ordered, complete, and a tree that makes sense."""

from __future__ import annotations

import httpx
import pytest

from tests.e2e.answers import FLAT, NESTED, PROMPTS, Ask, Tree


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("parallel", ["auto", "serial", "off"])
def test_events_are_numbered_and_begin_with_start_and_end_with_usage_and_finish(
    told: Ask, prompt: str, parallel: str
) -> None:
    events = told(prompt, parallel=parallel)
    assert [event["seq"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds[0] == "start"
    assert kinds[-2:] == ["usage", "finish"]
    assert set(kinds[1:-2]) <= {"text", "fork", "path_end", "join"}


@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_path_ends_and_every_fork_is_joined(told: Ask, prompt: str) -> None:
    tree = Tree(told(prompt, parallel="auto"))
    assert len(tree.paths) > 1
    assert all(path.end or name == "0" for name, path in tree.paths.items())
    assert not any(path.open for path in tree.paths.values())


def test_the_start_names_the_model_and_counts_the_prompt(told: Ask, client: httpx.Client) -> None:
    start = told(FLAT, parallel="auto")[0]
    assert start["model"] == client.get("/v1/models").json()["data"][0]["id"]
    assert start["request"].startswith("gen-")
    assert start["prompt_tokens"] > 0


def test_a_nested_prompt_forks_inside_its_paths(told: Ask) -> None:
    tree = Tree(told(NESTED, parallel="auto"))
    assert max(name.count(".") for name in tree.paths) == 2
    assert "#" in tree.text()


def test_texts_of_siblings_come_interleaved(told: Ask) -> None:
    """Paths run at once: one does not wait for the other's end."""
    events = told(FLAT, parallel="auto")
    order = [event["path"] for event in events if event["type"] == "text"]
    last = {path: number for number, path in enumerate(order)}
    assert order.index("0.2") < last["0.1"]
    assert order.index("0.1") < last["0.2"]


def test_what_the_system_wrote_is_marked(told: Ask) -> None:
    tree = Tree(told(FLAT, parallel="auto"))
    written = tree.text("written")
    assert written.count("<Path>") == len(tree.paths) - 1
    assert written.count("<Conclusion>") == 1
    assert "<Parallel>" not in written
    assert "<" not in tree.text("text")
