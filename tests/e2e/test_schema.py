"""Requests made from our own OpenAPI schema, good and bad: the server fails for none of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error

from multiverse_cli.stack import Stack
from tests.e2e.conftest import MODEL

USUAL = 25
EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", USUAL))
ROUTES = [
    "POST /v1/generate",
    "POST /v1/chat/completions",
    "POST /v1/completions",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "GET /v1/models/{name}",
]
# Any name of a model is a legal one: nothing bad can be made of it.
TRIED = [(route, mode) for route in ROUTES for mode in GenerationMode][:-1]
_CHAT: dict[str, Any] = {
    "model": MODEL.name,
    "messages": [{"role": "user", "content": "x"}],
    "max_tokens": 4,
}
GOOD: dict[str, dict[str, Any] | None] = {
    "POST /v1/generate": {"prompt": "x", "max_tokens": 4, "stream": False},
    "POST /v1/chat/completions": _CHAT,
    "POST /v1/completions": {"model": MODEL.name, "prompt": "x", "max_tokens": 4},
    "POST /v1/messages": _CHAT,
    "POST /v1/messages/count_tokens": {name: _CHAT[name] for name in ("model", "messages")},
    "GET /v1/models/{name}": None,
}
SMALL = {"default_max_tokens": "8", "most_choices": "2"}

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="session")
def small() -> Iterator[Stack]:
    with Stack(MODEL, router_settings=SMALL) as running:
        yield running


@pytest.fixture(scope="session")
def api(small: Stack) -> Any:
    return schemathesis.openapi.from_url(f"{small.url}/openapi.json")


@pytest.mark.parametrize(("route", "mode"), TRIED)
def test_no_request_makes_the_server_fail(
    api: Any, small: Stack, route: str, mode: GenerationMode
) -> None:
    method, path = route.split()
    seen: set[int] = set()

    @given(case=api[path][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        derandomize=EXAMPLES == USUAL,  # a longer run looks for what is new
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def send(case: Any) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("max_tokens"), int):
            case.body["max_tokens"] %= 64
        response = case.call_and_validate(checks=[not_a_server_error], timeout=60)
        seen.add(response.status_code)

    send()
    if mode is GenerationMode.POSITIVE:  # what fits may exclude each other, and be refused
        assert call(small.url, route, GOOD[route]) == 200
        assert seen
    else:
        assert seen & {400, 422}


def call(url: str, route: str, body: dict[str, Any] | None) -> int:
    """The status of a request that is known to be good."""
    method, path = route.split()
    whole = url + path.format(name=MODEL.name)
    return httpx.request(method, whole, json=body, timeout=60).status_code


def test_every_route_with_parameters_is_tried(api: Any) -> None:
    operations = [found.ok() for found in api.get_all_operations()]
    taking = [each for each in operations if each.body or each.path_parameters]
    assert {f"{each.method.upper()} {each.path}" for each in taking} == set(ROUTES)
