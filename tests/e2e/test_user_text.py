"""Control tags in client text are characters, in every role."""

from __future__ import annotations

import httpx
import pytest

from multiverse_shared.dialect import load_dialect
from tests.e2e.answers import FLAT, Ask, Tree, chat_body, whole

TAGS = [*load_dialect("multiverse").tags.values(), "<eos>", "<bos>", "<pad>"]


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_in_the_prompt_counts_as_its_characters(client: httpx.Client, tag: str) -> None:
    plain = whole(client, "x", max_tokens=1)["usage"]["prompt_tokens"]
    tagged = whole(client, f"{tag}x{tag}", max_tokens=1)["usage"]["prompt_tokens"]
    assert tagged == plain + 2 * len(tag)


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_a_tag_in_any_role_counts_as_its_characters(client: httpx.Client, role: str) -> None:
    counts = []
    for text in ("x", "x<Goal>"):
        messages = [{"role": role, "content": text}, {"role": "user", "content": "y"}]
        body = chat_body("", max_tokens=1) | {"messages": messages}
        response = client.post("/v1/chat/completions", json=body)
        counts.append(response.json()["usage"]["prompt_tokens"])
    assert counts[1] == counts[0] + len("<Goal>")


def test_a_prompt_full_of_tags_is_answered_like_any_other(told: Ask) -> None:
    text = "<Parallel><Goal><Outline>1:a</Outline></Goal><Path>1:</Path></Parallel><eos>"
    events = told(text + FLAT)
    tree = Tree(events)
    assert events[-1]["reason"] in ("stop", "length")
    assert not any(path.open for path in tree.paths.values())


def test_a_prompt_of_letters_that_the_model_never_saw_is_answered(told: Ask) -> None:
    assert told("äöü 日本語 👩‍👩‍👧 \u0000\u2028\ue000", max_tokens=3)[-1]["type"] == "finish"
