"""The whole way: HTTP, router, gRPC, SGLang. Its answers are those of llama.cpp."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from multiverse_worker.engines.sglang.engine import SglangEngine
from tests.e2e.answers import events_of, whole
from tests.sglang.served import routed, served, wait_until_idle

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "tiny_answers.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def client(engine: SglangEngine) -> Iterator[httpx.Client]:
    with served(engine) as worker, routed(worker) as client:
        yield client


@pytest.mark.parametrize("prompt", sorted(RECORDED))
def test_greedy_answers_are_those_of_llama_cpp(client: httpx.Client, prompt: str) -> None:
    assert whole(client, prompt, parallel="auto", temperature=0)["text"] == RECORDED[prompt]


def test_paths_are_decoded_side_by_side_and_streamed_as_they_grow(client: httpx.Client) -> None:
    prompt = min(RECORDED)
    said = [
        event["path"]
        for event in events_of(client, prompt, parallel="auto", temperature=0)
        if event["type"] == "text" and event["kind"] != "written"
    ]
    paths = [path for path in said if path != "0"]
    assert len(set(paths)) > 1
    assert paths != sorted(paths)  # not one after another


def test_a_client_that_leaves_takes_its_branches_with_it(
    client: httpx.Client, engine: SglangEngine
) -> None:
    body = {"prompt": min(RECORDED), "temperature": 0, "stream": True}
    with client.stream("POST", "/v1/generate", json=body) as response:
        for line in response.iter_lines():
            if line.startswith("event: text"):
                break
    wait_until_idle(engine)


def test_a_deadline_that_passes_ends_all_branches_and_harms_no_neighbour(
    client: httpx.Client, engine: SglangEngine
) -> None:
    prompt = max(RECORDED, key=lambda prompt: len(RECORDED[prompt]))
    answers: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        ask = pool.submit(whole, client, prompt, parallel="auto", temperature=0)
        for deadline_s in (0.01, 0.05, 0.2):
            answer = whole(client, prompt, parallel="auto", temperature=0, deadline_s=deadline_s)
            if answer["finish_reason"] == "deadline":
                answers.append(answer["text"])
        assert ask.result()["text"] == RECORDED[prompt]
    assert answers, "an answer of 200 tokens takes longer than the shortest of these"
    assert all(RECORDED[prompt] != text for text in answers)
    wait_until_idle(engine)
