"""A router that says what a test wrote, over HTTP and over gRPC at once."""

from __future__ import annotations

import json
import queue
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event as Flag
from threading import Thread
from typing import Any

import grpc

from multiverse_protos.generate.v1 import generate_pb2 as pb
from multiverse_protos.generate.v1.generate_pb2_grpc import (
    GenerateServiceServicer,
    add_GenerateServiceServicer_to_server,
)
from multiverse_shared.errors import STATUSES, Status

Fields = dict[str, Any]
LEFT_WITHIN_S = 10.0


@dataclass(frozen=True)
class Refusal:
    kind: str
    message: str = "no"
    field: str | None = None
    retry_after: str | None = None

    @property
    def status(self) -> Status:
        return next(status for status in STATUSES.values() if status.kind == self.kind)


@dataclass(frozen=True)
class Events:
    """Events, and then: the `end` of the stream, a `break`, or nothing until the client leaves."""

    events: tuple[Fields, ...]
    then: str = "end"


@dataclass
class Script:
    """What happens to each request, in order; `asked` are their bodies."""

    attempts: queue.SimpleQueue[Refusal | Events] = field(default_factory=queue.SimpleQueue)
    asked: list[Fields] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    left: Flag = field(default_factory=Flag)  # a client left a stream that had not ended
    http: str = ""
    grpc: str = ""

    def says(self, *attempts: Refusal | Events) -> None:
        for attempt in attempts:
            self.attempts.put(attempt)

    def url(self, transport: str) -> str:
        return {"http": self.http, "grpc": self.grpc}[transport]


def sse(event: Fields) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def message(event: Fields) -> pb.GenerateResponse:
    fields = {name: value for name, value in event.items() if name not in ("type", "seq")}
    return pb.GenerateResponse(seq=event["seq"], **{event["type"]: fields})


@contextmanager
def scripted() -> Iterator[Script]:
    script = Script()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(script))
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server = grpc.server(ThreadPoolExecutor(4))
    add_GenerateServiceServicer_to_server(_Service(script), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    script.http = f"http://127.0.0.1:{http.server_port}"
    script.grpc = f"grpc://127.0.0.1:{port}"
    try:
        yield script
    finally:
        server.stop(None).wait()
        http.shutdown()
        thread.join()
        http.server_close()


def _handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            script.asked.append(json.loads(body))
            script.keys.append(self.headers.get("authorization"))
            attempt = script.attempts.get_nowait()
            if isinstance(attempt, Refusal):
                self._refuse(attempt)
            else:
                self._tell(attempt)

        def _refuse(self, refusal: Refusal) -> None:
            error = {"message": refusal.message, "type": refusal.kind, "param": refusal.field}
            content = json.dumps({"error": error}).encode()
            self.send_response(refusal.status.http)
            if refusal.retry_after:
                self.send_header("retry-after", refusal.retry_after)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _tell(self, answer: Events) -> None:
            self.send_response(200)
            self.send_header("connection", "close")
            if answer.then == "break":
                self.send_header("content-length", "1000000")
            self.end_headers()
            for event in answer.events:
                self.wfile.write(b": heartbeat\n\n" + sse(event))
            if answer.then == "hang":
                self.connection.settimeout(LEFT_WITHIN_S)
                try:
                    gone = self.connection.recv(1) == b""
                except (ConnectionResetError, socket.timeout):  # noqa: UP041 - both names
                    gone = True
                if gone:
                    script.left.set()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


class _Service(GenerateServiceServicer):
    def __init__(self, script: Script) -> None:
        self._script = script

    def Generate(  # noqa: N802
        self, request: pb.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.GenerateResponse]:
        self._script.asked.append({"prompt": request.prompt})
        metadata = dict(context.invocation_metadata())
        self._script.keys.append(metadata.get("authorization"))
        attempt = self._script.attempts.get_nowait()
        if isinstance(attempt, Refusal):
            given = {"error-field": attempt.field, "retry-after": attempt.retry_after}
            trailers = [("error-kind", attempt.kind)]
            trailers += [(name, value) for name, value in given.items() if value]
            context.set_trailing_metadata(tuple(trailers))
            context.abort(grpc.StatusCode[attempt.status.grpc], attempt.message)
            return
        gone = Flag()

        def leave() -> None:
            gone.set()
            if attempt.then == "hang":
                self._script.left.set()

        if not context.add_callback(leave):
            leave()
        for event in attempt.events:
            yield message(event)
        if attempt.then == "break":
            context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
        if attempt.then == "hang":
            gone.wait(LEFT_WITHIN_S)
