"""A Kubernetes API server that knows EndpointSlices only, and misbehaves on command.

List and watch as the real one does them: versions rise with each change, a watch tells what came
behind a version, and 410 answers a version that is too old.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

from kubernetes import client

POLL_S = 0.02
Slice = dict[str, Any]


def endpoint_slice(
    name: str,
    *addresses: str,
    port: int = 7071,
    unready: tuple[str, ...] = (),
    deleted: bool = False,
) -> Slice:
    """A slice of the service `workers`."""
    metadata = {"name": name, "labels": {"kubernetes.io/service-name": "workers"}}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    endpoints = [
        {"addresses": [address], "conditions": {"ready": address not in unready}}
        for address in addresses
    ]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "metrics", "port": 9}, {"name": "grpc", "port": port}],
    }


class KubeApi:
    """What is there, and what goes wrong."""

    def __init__(self) -> None:
        self.lists = 0
        self.watches = 0
        self.fail_lists: list[int] = []  # statuses of the next lists
        self.miss_deletes = False  # watches do not tell them
        self.oldest = 0  # versions before it are gone: 410
        self.url = ""
        self._slices: dict[str, Slice] = {}
        self._log: list[tuple[int, str, Slice]] = []
        self._version = 1
        self._dropped = 0  # all watches that began before it are cut
        self._lock = threading.Lock()

    def put(self, item: Slice) -> None:
        with self._lock:
            kind = "MODIFIED" if item["metadata"]["name"] in self._slices else "ADDED"
            self._slices[item["metadata"]["name"]] = item
            self._tell(kind, item)

    def delete(self, name: str) -> None:
        with self._lock:
            item = self._slices.pop(name)
            if self.miss_deletes:
                self._version += 1
            else:
                self._tell("DELETED", item)

    def drop_watches(self) -> None:
        self._dropped = self.watches

    def forget_versions(self) -> None:
        """Whoever watches from before now hears 410."""
        with self._lock:
            self._version += 1
            self.oldest = self._version
        self.drop_watches()

    def _tell(self, kind: str, item: Slice) -> None:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._log.append((self._version, kind, json.loads(json.dumps(item))))

    def listed(self) -> dict[str, Any]:
        self.lists += 1
        with self._lock:
            return {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSliceList",
                "metadata": {"resourceVersion": str(self._version)},
                "items": list(self._slices.values()),
            }

    def watched(self, version: int, seconds: float) -> Iterator[dict[str, Any]]:
        """Events behind a version. ConnectionError when the watch is dropped."""
        self.watches += 1
        number, until = self.watches, time.monotonic() + seconds
        if version < self.oldest:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            yield {"type": "ERROR", "object": status}
            return
        while time.monotonic() < until:
            if number <= self._dropped:
                raise ConnectionError
            for at, kind, item in list(self._log):
                if at > version:
                    version = at
                    yield {"type": kind, "object": item}
            time.sleep(POLL_S)

    def client(self) -> client.DiscoveryV1Api:
        configuration = client.Configuration(host=self.url)
        configuration.retries = False
        return client.DiscoveryV1Api(client.ApiClient(configuration))


@contextmanager
def kube_api() -> Iterator[KubeApi]:
    api = KubeApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = parse_qs(urlparse(self.path).query)
            if query.get("labelSelector") != ["kubernetes.io/service-name=workers"]:
                self._answer(400, {})
            elif "watch" in query:
                self._watch(int(query["resourceVersion"][0]), float(query["timeoutSeconds"][0]))
            elif api.fail_lists:
                self._answer(api.fail_lists.pop(0), {"kind": "Status"})
            else:
                self._answer(200, api.listed())

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _watch(self, version: int, seconds: float) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            try:
                for event in api.watched(version, seconds):
                    self._chunk(json.dumps(event).encode() + b"\n")
                self._chunk(b"")
            except OSError:
                self.close_connection = True

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.drop_watches()
        server.shutdown()
        server.server_close()
        thread.join()
