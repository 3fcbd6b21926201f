"""Requests that share a batch do not change each other's answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.e2e.answers import FLAT, LISTING, NESTED, Ask, Tree, chat, events_of, whole
from tests.e2e.load import LoadMeter

MANY = 24
ASKED = [FLAT, NESTED, LISTING, "max a:3+4,b:9-4,?", "count by 4 a:40,b:41,?", "min a:9-1,b:8,?"]


def test_many_requests_at_once_give_the_answers_that_each_gives_alone(
    client: httpx.Client, told: Ask, load: LoadMeter
) -> None:
    alone = {prompt: Tree(told(prompt, parallel="auto")).text() for prompt in ASKED}

    def ask(number: int) -> tuple[str, str]:
        prompt = ASKED[number % len(ASKED)]
        match number // len(ASKED) % 3:
            case 0:
                return prompt, Tree(events_of(client, prompt)).text()
            case 1:
                return prompt, whole(client, prompt)["text"]
            case _:
                return prompt, chat(client, prompt)["choices"][0]["message"]["content"]

    with ThreadPoolExecutor(MANY) as pool:
        for prompt, text in pool.map(ask, range(MANY)):
            assert text == alone[prompt]
    load.until_idle()
    assert client.get("/ready").json()["running"] == 0
