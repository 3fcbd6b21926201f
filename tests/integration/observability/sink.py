"""A place that traces are sent to: OTLP over HTTP, kept in memory."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.e2e.load import eventually


@dataclass(frozen=True, slots=True)
class Seen:
    """A span as it arrived."""

    service: str
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    begin: int
    end: int
    failed: bool
    attributes: dict[str, Any]
    events: list[str]


@dataclass(slots=True)
class Sink:
    """`spans` are all that came; `url` is where they come to."""

    url: str = ""
    spans: list[Seen] = field(default_factory=list)

    def trace(self, trace: bytes) -> list[Seen]:
        return [span for span in self.spans if span.trace == trace]

    def whole(self, trace: bytes, count: int) -> list[Seen]:
        """The spans of a trace, once so many have come."""
        eventually(lambda: len(self.trace(trace)) >= count, f"{count} spans", 20)
        return self.trace(trace)

    def take(self, body: bytes) -> None:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                self.spans += [_seen(service, span) for span in scope.spans]


def _seen(service: str, span: Any) -> Seen:
    return Seen(
        service=service,
        name=span.name,
        trace=span.trace_id,
        id=span.span_id,
        parent=span.parent_span_id,
        begin=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        failed=span.status.code == 2,
        attributes=_attributes(span.attributes),
        events=[event.name for event in span.events],
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def sink() -> Iterator[Sink]:
    found = Sink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            found.take(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
