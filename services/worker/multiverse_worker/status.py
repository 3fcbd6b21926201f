"""The HTTP port of a worker: /metrics for Prometheus, /health and /ready for whoever runs it.

A thread of its own, so that it answers while the event loop is busy. Open to all who reach it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from multiverse_shared.errors import InvalidRequest

_TEXT = "text/plain; charset=utf-8"
_READ_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Status:
    """What is told of a worker. Asked from the port's thread."""

    registry: CollectorRegistry
    is_healthy: Callable[[], bool]
    is_ready: Callable[[], bool]  # new requests are taken


def serve_status(status: Status, host: str, port: int) -> Callable[[], None]:
    """Answer on `port`; returns what ends that. InvalidRequest when the port is taken."""

    class Handler(_Handler):
        told = status

    try:
        server = _Server((host, port), Handler)
    except OSError as error:
        raise InvalidRequest(
            f"can't serve metrics on {host}:{port} ({error.strerror}); "
            "set MULTIVERSE_WORKER_METRICS_PORT to a free port, or to 0 for none",
            field="metrics_port",
        ) from None
    thread = Thread(target=server.serve_forever, name="status", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a reader that stalls must not hold the process


class _Handler(BaseHTTPRequestHandler):
    told: Status
    timeout = _READ_TIMEOUT_S
    server_version = "multiverse-worker"
    sys_version = ""

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/metrics":
                text = generate_latest(self.told.registry)
                self._answer(HTTPStatus.OK, text, CONTENT_TYPE_LATEST)
            case "/health":
                self._state(self.told.is_healthy(), "broken")
            case "/ready":
                self._state(self.told.is_ready(), "draining")
            case _:
                self._answer(HTTPStatus.NOT_FOUND, b"not found\n", _TEXT)

    def _state(self, good: bool, otherwise: str) -> None:
        status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, f"{'ok' if good else otherwise}\n".encode(), _TEXT)

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Probes and scrapes are no news."""
