"""One trace for each request: client, router, answer, paths, engine; across three processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from multiverse_cli.stack import Stack
from multiverse_client import ApiError, Client
from tests.e2e.conftest import MODEL
from tests.e2e.load import eventually
from tests.integration.observability.sink import Seen, Sink, sink

SIMULATED = {"engine": "sim", "sim_speed": "100"}
CALLS = {
    "http": "POST /v1/generate",
    "grpc": "multiverse.generate.v1.GenerateService/Generate",
}
ASKED = "sim:paths=2,depth=2,path=6-8 hello"


@pytest.fixture(scope="module")
def traced() -> Iterator[tuple[Stack, Sink]]:
    """A stack that sends its spans to a sink, soon."""
    with sink() as spans, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        to = {"otlp_endpoint": spans.url}
        with Stack(MODEL, worker_settings=SIMULATED | to, router_settings=to) as stack:
            yield stack, spans


@pytest.fixture(scope="module")
def tracer(traced: tuple[Stack, Sink]) -> Iterator[Tracer]:
    """The client's own, as a program with OpenTelemetry has one."""
    provider = TracerProvider(resource=Resource.create({"service.name": "client"}))
    exporter = OTLPSpanExporter(f"{traced[1].url}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("tests")
    provider.shutdown()


def named(spans: list[Seen], name: str) -> Seen:
    [found] = [span for span in spans if span.name == name]
    return found


@pytest.mark.parametrize("over", CALLS)
def test_a_request_is_one_trace_with_a_span_for_each_path(
    traced: tuple[Stack, Sink], tracer: Tracer, over: str
) -> None:
    stack, spans = traced
    url = stack.url if over == "http" else f"grpc://{stack.grpc_address}"
    with Client(url) as client, tracer.start_as_current_span("ask") as asking:
        answer = client.generate(ASKED, seed=5)
    paths = {path.id for path in answer.paths.values()} | {"0"}
    trace = asking.get_span_context().trace_id.to_bytes(16, "big")
    usage = answer.usage
    forks = sum(1 for path in paths if any(other.startswith(f"{path}.") for other in paths))
    branches = len(paths) + forks  # whoever forks goes on after the join
    seen = spans.whole(trace, 3 + len(paths) + branches)
    assert len(seen) == 3 + len(paths) + branches

    client_span = named(seen, "ask")
    route = (
        "POST /v1/generate" if over == "http" else "multiverse.generate.v1.GenerateService/Generate"
    )
    call, chat = named(seen, route), named(seen, f"chat {MODEL.name}")
    assert (client_span.service, call.service) == ("client", "multiverse-router")
    assert (call.parent, chat.parent) == (client_span.id, call.id)
    assert chat.attributes["gen_ai.usage.output_tokens"] == usage.completion_tokens
    assert chat.attributes["gen_ai.usage.input_tokens"] == usage.prompt_tokens
    assert chat.attributes["gen_ai.response.finish_reasons"] == ["stop"]

    by_path = {path: named(seen, f"path {path}") for path in paths}
    for path, span in by_path.items():
        above = path.rpartition(".")[0]
        assert span.parent == (by_path[above] if above else chat).id
        assert "first token" in span.events
        engine = [one for one in seen if one.name == "decode" and one.parent == span.id]
        assert len(engine) == 1 + any(other.rpartition(".")[0] == path for other in paths)
        assert {one.service for one in engine} == {"multiverse-worker"}
        assert {one.attributes["multiverse.path"] for one in engine} == {path}
        assert all(span.begin <= one.begin <= one.end for one in engine)
    tokens = sum(span.attributes["gen_ai.usage.output_tokens"] for span in by_path.values())
    assert tokens == usage.completion_tokens
    assert not any(span.failed for span in seen)


def test_a_request_without_a_trace_begins_one_that_names_the_request(
    traced: tuple[Stack, Sink],
) -> None:
    stack, spans = traced
    body = {"messages": [{"role": "user", "content": "sim:plain hello"}]}
    headers = {"x-request-id": "mine"}
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200
    call = awaited(spans, "mine")
    assert not call.parent
    assert call.attributes["http.response.status_code"] == 200
    assert len(spans.whole(call.trace, 4)) == 4  # call, answer, root, engine


def test_what_fails_is_a_failed_span_and_what_is_refused_has_no_answer(
    traced: tuple[Stack, Sink], tracer: Tracer
) -> None:
    stack, spans = traced
    with (
        Client(stack.url) as client,
        tracer.start_as_current_span("ask") as asking,
        pytest.raises(ApiError),
    ):
        client.generate("x", model="other")
    trace = asking.get_span_context().trace_id.to_bytes(16, "big")
    seen = spans.whole(trace, 2)
    assert {span.name for span in seen} == {"ask", "POST /v1/generate"}
    assert named(seen, "POST /v1/generate").attributes["http.response.status_code"] == 404


def test_a_client_that_leaves_ends_its_spans(traced: tuple[Stack, Sink]) -> None:
    stack, spans = traced
    body: dict[str, Any] = {"prompt": "sim:plain,path=90000 hello", "max_tokens": 9000}
    headers = {"x-request-id": "left"}
    url = f"{stack.url}/v1/generate"
    with httpx.stream("POST", url, json=body, headers=headers) as answer:
        next(answer.iter_lines())
    call = awaited(spans, "left")
    seen = spans.whole(call.trace, 4)
    assert call.failed
    assert {span.name.split()[0] for span in seen} == {"POST", "chat", "path", "decode"}
    assert named(seen, "path 0").failed
    assert named(seen, "decode").attributes["multiverse.finish_reason"] == "aborted"


def test_a_request_that_is_not_sampled_leaves_no_span(traced: tuple[Stack, Sink]) -> None:
    stack, spans = traced
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-00", "x-request-id": "unsampled"}
    body = {"prompt": "sim:plain hello", "stream": False}
    assert httpx.post(f"{stack.url}/v1/generate", json=body, headers=headers).is_success
    headers = {"x-request-id": "sampled"}
    assert httpx.post(f"{stack.url}/v1/generate", json=body, headers=headers).is_success
    awaited(spans, "sampled")
    assert not spans.trace(bytes.fromhex(trace))


def awaited(spans: Sink, request_id: str) -> Seen:
    """The span of the call with this request id, once it has come."""

    def found() -> list[Seen]:
        return [
            one for one in spans.spans if one.attributes.get("multiverse.request_id") == request_id
        ]

    eventually(found, f"the span of {request_id}", 20)
    return found()[0]
