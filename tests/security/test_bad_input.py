"""Whatever is sent, the answer is a clear 4xx that names the field, and nothing is started."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_router.api.json_check import MOST_LEVELS, check_json
from multiverse_shared.errors import InvalidRequest
from tests.security.serving import Served, ask, connected, head, post, running, until

GENERATE, CHAT = "/v1/generate", "/v1/chat/completions"
USER = {"messages": [{"role": "user", "content": "x"}]}
DEEP = 1_000_000

BODIES: list[tuple[str, str, Any, set[int], str]] = [
    ("a number for text", GENERATE, {"prompt": 5}, {400, 422}, "prompt"),
    ("text for a number", GENERATE, {"prompt": "x", "top_k": "many"}, {400, 422}, "top_k"),
    ("an object for text", GENERATE, {"prompt": {}}, {400, 422}, "prompt"),
    ("another model", GENERATE, {"prompt": "x", "model": "gpt"}, {404}, "model"),
    ("a negative limit", GENERATE, {"prompt": "x", "max_tokens": -1}, {400, 422}, "max_tokens"),
    ("a negative depth", GENERATE, {"prompt": "x", "max_depth": -1}, {400, 422}, "max_depth"),
    ("a huge budget", GENERATE, {"prompt": "x", "max_tokens": 10**12}, {413}, "max_tokens"),
    ("a huge n", CHAT, {**USER, "n": 10**9}, {400, 422}, "n"),
    ("a negative n", CHAT, {**USER, "n": -1}, {400, 422}, "n"),
    ("bad UTF-8", GENERATE, b'{"prompt": "\xff"}', {400}, "body"),
    ("UTF-16", GENERATE, '{"prompt": "x"}'.encode("utf-16"), {400}, "body"),
    ("half a character", GENERATE, b'{"prompt": "\\ud800"}', {400, 422}, "prompt"),
    ("a key twice", GENERATE, b'{"prompt": "a", "prompt": "b"}', {400}, "prompt"),
    (
        "a key twice, deep inside",
        CHAT,
        b'{"messages": [{"role": "user", "content": "a", "role": "system"}]}',
        {400},
        "role",
    ),
    ("lists in lists", GENERATE, b"[" * DEEP + b"]" * DEEP, {400}, "body"),
    (
        "objects in objects",
        GENERATE,
        b'{"a":' * (DEEP // 2) + b"1" + b"}" * (DEEP // 2),
        {400},
        "body",
    ),
    ("lists that never end", CHAT, b'{"messages": ' + b"[" * DEEP, {400}, "body"),
    ("a number of 5,000 digits", GENERATE, b'{"top_k": ' + b"9" * 5000 + b"}", {400}, "body"),
    ("no JSON", GENERATE, b"prompt=x", {400, 422}, "body"),
    ("nothing", GENERATE, b"", {400, 422}, "body"),
    ("not a number", GENERATE, b'{"prompt": "x", "top_p": NaN}', {400, 422}, "top_p"),
    ("a body over the limit", GENERATE, b" " * ((4 << 20) + 1), {413}, "body"),
]


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with running(header_timeout_s=0.3, body_timeout_s=0.3) as router:
        yield router
        assert not router.link.starts
        await until(lambda: not router.answers.running)


@pytest.mark.parametrize(
    ("path", "body", "statuses", "field"), [case[1:] for case in BODIES], ids=[c[0] for c in BODIES]
)
async def test_a_bad_body_is_refused_with_the_name_of_the_field(
    served: Served, path: str, body: Any, statuses: set[int], field: str
) -> None:
    answer = await ask(served, post(path, body))
    assert answer.status in statuses, answer
    assert answer.error["param"] == field
    assert answer.error["message"]
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data", "application/x-www-form-urlencoded", "x", ""]
)
async def test_a_body_of_another_type_is_refused(served: Served, kind: str) -> None:
    answer = await ask(served, post(GENERATE, {"prompt": "x"}, content_type=kind))
    assert 400 <= answer.status < 500
    assert answer.error["param"] == "body"


async def test_many_levels_in_strings_and_many_shallow_ones_are_no_depth() -> None:
    async with running() as served:
        text = json.dumps("[" * 1000 + '\\"{' * 1000)
        body = f'{{"prompt": {text}, "model": "other"}}'.encode()
        assert (await ask(served, post(GENERATE, body))).error["param"] == "model"
        turns = [{"role": "user", "content": "x"}] * 500
        answer = await ask(served, post(CHAT, {"messages": turns, "model": "other"}))
        assert answer.error["param"] == "model"


@given(
    chain=st.lists(st.sampled_from([("[", "]"), ('{"a":', "}")]), min_size=1, max_size=140),
    siblings=st.integers(0, 100),
)
def test_what_is_deeper_than_the_limit_is_refused_and_nothing_else(
    chain: list[tuple[str, str]], siblings: int
) -> None:
    opens, closes = zip(*chain, strict=True)
    body = f"[{'[],' * siblings}{''.join(opens)}1{''.join(reversed(closes))}]".encode()
    deep = len(chain) + 1 > MOST_LEVELS
    with pytest.raises(InvalidRequest) if deep else nullcontext():
        check_json(body)


@pytest.mark.parametrize(
    "headers",
    [{f"x_{number}": "y" for number in range(200)}, {f"x_{n}": "y" * 8000 for n in range(6)}],
    ids=["many", "large"],
)
async def test_a_bomb_of_headers_is_refused(served: Served, headers: dict[str, str]) -> None:
    answer = await ask(served, post(GENERATE, {"prompt": "x"}, **headers))
    assert answer.status == 431
    assert answer.error["param"] == "headers"


async def test_headers_that_never_end_are_refused(served: Served) -> None:
    async with connected(served) as connection:
        await connection.send(b"GET /health HTTP/1.1\r\nx: ")
        for _ in range(4):
            await connection.send(b"y" * 16_000)
        answer = await connection.answer()
        assert answer.status == 431
        assert answer.error["param"] == "headers"
        await connection.ended()


@pytest.mark.parametrize(
    "sent", [b"", b"GET /hea", b"POST /v1/generate HTTP/1.1\r\nhost: x\r\n"], ids=repr
)
async def test_a_connection_without_a_whole_request_is_closed(served: Served, sent: bytes) -> None:
    async with connected(served) as connection:
        await connection.send(sent)
        await connection.ended()


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"\x16\x03\x01\r\n"]
)
async def test_what_is_no_http_is_refused(served: Served, sent: bytes) -> None:
    async with connected(served) as connection:
        await connection.send(sent)
        answer = await connection.answer()
        assert answer.status == 400
        assert answer.error["type"] == "invalid_request_error"
        await connection.ended()


@pytest.mark.parametrize(
    "framing",
    [
        {"content_length": "5", "transfer_encoding": "chunked"},
        {"content_length": "-5"},
        {"content_length": "many"},
        {"transfer_encoding": "gzip"},
    ],
    ids=str,
)
async def test_framing_that_could_be_read_in_two_ways_is_not_read_as_two_requests(
    served: Served, framing: dict[str, str]
) -> None:
    """What proxies and servers read differently lets one client speak for another."""
    smuggled = b"GET /health HTTP/1.1\r\nhost: router\r\n\r\n"
    async with connected(served) as connection:
        start = head(GENERATE, content_type="application/json", **framing)
        await connection.send(start + b"0\r\n\r\n" + smuggled)
        answer = await connection.answer()
        assert 400 <= answer.status < 600
        assert b"status" not in answer.body + await connection.ended()


async def test_a_body_without_end_is_refused_and_its_connection_cut(served: Served) -> None:
    async with connected(served) as connection:
        start = head(GENERATE, content_type="application/json", transfer_encoding="chunked")
        await connection.send(start + b"1\r\n{\r\n")
        answer = await connection.answer()
        assert answer.status == 408
        assert answer.error["param"] == "body"
        await connection.ended()


async def test_who_sends_on_after_a_refusal_is_cut(served: Served) -> None:
    async with connected(served) as connection:
        start = head("/health", method="GET", transfer_encoding="chunked")
        await connection.send(start)
        assert (await connection.answer()).status == 200

        async def send_on() -> None:
            while True:
                await connection.send(b"1\r\nx\r\n")
                await asyncio.sleep(0.02)

        sending = asyncio.create_task(send_on())
        await connection.ended()
        await asyncio.wait([sending])
        assert isinstance(sending.exception(), ConnectionError)


async def test_a_client_that_sends_on_and_leaves_is_noticed() -> None:
    """Though its bytes were not wanted: who does not read sees no end."""
    async with running() as served, connected(served) as connection:
        one = post(GENERATE, {"prompt": "x", "stream": False})
        await connection.send(one)
        await until(lambda: served.link.starts)
        await connection.send(one * 500)
        connection.writer.transport.abort()
        await until(lambda: served.answers.running == 0, 3)
        assert len(served.link.starts) == 1
        assert served.link.aborted == {served.link.starts[0].branch}


async def test_requests_behind_one_that_is_answered_are_for_another_connection() -> None:
    async with running() as served, connected(served) as connection:
        one = post(GENERATE, {"prompt": "x", "stream": False})
        await connection.send(one)
        await until(lambda: served.link.starts)
        await connection.send(one * 3)
        await connection.send(one)
        served.link.ended(served.link.starts[0], [served.link.model.eos[0]], "")
        assert (await connection.answer()).status == 200
        assert await connection.ended() == b""
        assert len(served.link.starts) == 1


async def test_refusals_are_counted_by_reason(served: Served) -> None:
    for body in (b"", b'{"prompt": "\xff"}'):
        await ask(served, post(GENERATE, body))
    assert served.metric("refused_total", reason="invalid") == 2
    assert served.metric("requests_total", route=GENERATE, status="4xx", model="small") == 2
    await ask(served, post("/nowhere/" + "x" * 100, b""))
    assert served.metric("requests_total", route="other", status="4xx", model="small") == 1
