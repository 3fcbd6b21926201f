"""What clients of the OpenAI API rely on."""

from __future__ import annotations

import httpx

from tests.e2e.answers import FLAT, AskWhole, chat, chat_body, chat_chunks


def test_a_completion_has_the_known_fields(told_chat: AskWhole) -> None:
    body = told_chat(FLAT)
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert isinstance(body["created"], int)
    [choice] = body["choices"]
    assert choice["index"] == 0
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"]


def test_a_stream_begins_with_the_role_and_ends_with_reason_and_done(client: httpx.Client) -> None:
    *chunks, done = chat_chunks(client, FLAT)
    assert done == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert all(len(chunk["choices"]) == 1 for chunk in chunks)
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert "usage" not in chunks[-1]
    assert chunks[-1]["multiverse"]["critical_path_tokens"] > 0


def test_usage_comes_in_a_chunk_without_choices_when_asked_for(client: httpx.Client) -> None:
    *chunks, last, done = chat_chunks(client, FLAT, stream_options={"include_usage": True})
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] > 0
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert not any(chunk.get("usage") for chunk in chunks)


def test_a_budget_that_ends_the_answer_is_reason_length(client: httpx.Client) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        body = chat(client, FLAT, **{name: 3})
        assert body["choices"][0]["finish_reason"] == "length"
        assert body["usage"]["completion_tokens"] == 3


def test_what_has_no_meaning_here_is_taken_and_ignored(client: httpx.Client) -> None:
    chat(client, FLAT, max_tokens=1, user="me", metadata={"a": "b"}, n=1, seed=1)


def test_parallel_options_stand_under_their_own_key(client: httpx.Client) -> None:
    body = chat(client, FLAT, max_tokens=20, multiverse={"parallel": "off"})
    assert body["multiverse"]["parallelism"] == 1.0


def test_a_chat_of_several_turns_is_answered(client: httpx.Client) -> None:
    messages = [
        {"role": "system", "content": "sum"},
        {"role": "user", "content": "a:1,"},
        {"role": "assistant", "content": "#1"},
        {"role": "user", "content": "b:2,?"},
    ]
    body = chat_body("", max_tokens=5) | {"messages": messages}
    response = client.post("/v1/chat/completions", json=body)
    assert response.status_code == 200
    assert response.json()["usage"]["prompt_tokens"] > 10


def test_the_served_model_is_listed_and_may_be_named(client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    [entry] = listed["data"]
    assert entry["object"] == "model"
    assert chat(client, FLAT, model=entry["id"], max_tokens=1)["model"] == entry["id"]
