"""/v1/completions over real processes: prompts as they are, echo, and logprobs of the prompt."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from multiverse_shared.tokenizer import TextTokenizer
from tests.e2e.answers import FLAT, AskWhole
from tests.e2e.conftest import MODEL

PROMPT = f"{FLAT} in parallel"
TOKENIZER = TextTokenizer.from_directory(MODEL)
EOS = "<eos>"


def complete(client: httpx.Client, prompt: Any = PROMPT, **fields: Any) -> dict[str, Any]:
    body = {"prompt": prompt, "temperature": 0, "max_tokens": 400, **fields}
    response = client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


@pytest.fixture(scope="module")
def answer(client: httpx.Client) -> dict[str, Any]:
    [choice] = complete(client, logprobs=2)["choices"]
    found: dict[str, Any] = choice
    return found


def test_the_answer_is_that_of_the_same_prompt_in_a_chat(
    answer: dict[str, Any], told_chat: AskWhole
) -> None:
    assert answer["text"] == told_chat(FLAT)["choices"][0]["message"]["content"]


def test_the_prompts_logprobs_are_those_that_decoding_the_same_tokens_had(
    client: httpx.Client, answer: dict[str, Any]
) -> None:
    """Up to the fork: behind it the tree is no plain text."""
    known = answer["logprobs"]
    end = known["tokens"].index("</Goal>")
    tokens = [TOKENIZER.token_id(token) or TOKENIZER.encode(token)[0] for token in known["tokens"]]
    prompt = [*TOKENIZER.encode_trusted("<bos>"), *TOKENIZER.encode(PROMPT)]
    echoed = complete(client, [*prompt, *tokens[:end]], max_tokens=1, echo=True, logprobs=2)
    found = echoed["choices"][0]["logprobs"]
    assert found["token_logprobs"][0] is None
    assert found["top_logprobs"][0] is None
    assert len(found["tokens"]) == len(prompt) + end + 1
    again = slice(len(prompt), len(prompt) + end)
    assert found["tokens"][again] == known["tokens"][:end]
    assert found["token_logprobs"][again] == pytest.approx(known["token_logprobs"][:end], abs=1e-4)
    for mine, theirs in zip(found["top_logprobs"][again], known["top_logprobs"], strict=False):
        assert mine == pytest.approx(theirs, abs=1e-4)


def test_echo_puts_the_prompt_first_and_offsets_point_at_tokens(client: httpx.Client) -> None:
    [choice] = complete(client, echo=True, logprobs=0)["choices"]
    text, logprobs = choice["text"], choice["logprobs"]
    assert text.startswith(PROMPT)
    assert logprobs["top_logprobs"] is None
    assert None not in logprobs["token_logprobs"], "the sequence begins with a token of its own"
    told = list(zip(logprobs["text_offset"], logprobs["tokens"], strict=True))
    assert len(told) > len(TOKENIZER.encode(PROMPT)) + 20
    for start, token in told:  # this tokenizer leaves spaces out
        assert token == EOS or text[start:].replace(" ", "").startswith(token)


def test_several_prompts_are_answered_in_their_order(client: httpx.Client) -> None:
    both = complete(client, [PROMPT, "a"], n=2, max_tokens=20)
    assert [choice["index"] for choice in both["choices"]] == [0, 1, 2, 3]
    first, second = complete(client, max_tokens=20), complete(client, "a", max_tokens=20)
    texts = [choice["text"] for choice in both["choices"]]
    assert texts[::2] == [first["choices"][0]["text"], second["choices"][0]["text"]]
    sizes = [each["usage"]["prompt_tokens"] for each in (first, second)]
    assert both["usage"]["prompt_tokens"] == sum(sizes)
    assert sizes == [len(TOKENIZER.encode(text)) + 1 for text in (PROMPT, "a")]


def test_tags_in_a_text_are_no_control_tokens(client: httpx.Client) -> None:
    size = complete(client, "<Path>", max_tokens=1)["usage"]["prompt_tokens"]
    assert size == len(TOKENIZER.encode("<Path>")) + 1 > 2
    path = TOKENIZER.token_id("<Path>")
    assert complete(client, [path], max_tokens=1)["usage"]["prompt_tokens"] == 1
