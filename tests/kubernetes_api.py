"""The part of a Kubernetes API server that trainings need: Jobs, a template, pods and logs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Object = dict[str, Any]


@dataclass(slots=True)
class Cluster:
    """What is there. A Job's pods are put in by the test, as a controller would."""

    cron_jobs: list[Object] = field(default_factory=list)
    config_maps: dict[str, Object] = field(default_factory=dict)
    jobs: dict[str, Object] = field(default_factory=dict)
    pods: list[Object] = field(default_factory=list)
    logs: dict[str, list[str]] = field(default_factory=dict)
    deleted: list[tuple[str, Object]] = field(default_factory=list)
    forbidden: bool = False

    def begin_pod(self, job: str, name: str, lines: list[str], *, phase: str = "Running") -> None:
        labels = {"batch.kubernetes.io/job-name": job}
        made = f"2026-01-01T00:00:{len(self.pods):02d}Z"
        metadata = {"name": name, "labels": labels, "creationTimestamp": made}
        self.pods.append({"metadata": metadata, "status": {"phase": phase}})
        self.logs[name] = lines

    def end_job(self, job: str, kind: str, reason: str = "") -> None:
        condition = {"type": kind, "status": "True", "reason": reason}
        self.jobs[job]["status"] = {"conditions": [condition]}


@contextmanager
def api_server(cluster: Cluster) -> Iterator[str]:
    """Its URL."""

    class Handler(_Handler):
        of = cluster

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    of: Cluster

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        match path.strip("/").split("/"):
            case [*_, "cronjobs"]:
                self._tell({"items": self.of.cron_jobs})
            case [*_, "configmaps", name] if name in self.of.config_maps:
                self._tell(self.of.config_maps[name])
            case [*_, "jobs", name] if name in self.of.jobs:
                self._tell(self.of.jobs[name])
            case [*_, "pods"]:
                job = query.rpartition("job-name%3D")[2].partition("&")[0]
                labels = {"batch.kubernetes.io/job-name": job}
                self._tell(
                    {"items": [pod for pod in self.of.pods if pod["metadata"]["labels"] == labels]}
                )
            case [*_, "pods", name, "log"]:
                text = "".join(f"{line}\n" for line in self.of.logs[name])
                self._answer(200, text.encode(), "text/plain")
            case _:
                self._refuse(404, "NotFound")

    def do_POST(self) -> None:
        body = self._body()
        name = body["metadata"]["name"]
        if self.of.forbidden:
            self._refuse(403, "Forbidden")
        elif name in self.of.jobs:
            self._refuse(409, "AlreadyExists")
        else:
            self.of.jobs[name] = {**body, "status": {"active": 1}}
            self._tell(body, 201)

    def do_DELETE(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        if self.of.jobs.pop(name, None) is None:
            self._refuse(404, "NotFound")
            return
        self.of.deleted.append((name, {"query": self.path.partition("?")[2], **self._body()}))
        self._tell({"kind": "Status", "status": "Success"})

    def _body(self) -> Object:
        size = int(self.headers.get("content-length") or 0)
        found: Object = json.loads(self.rfile.read(size) or b"{}")
        return found

    def _refuse(self, status: int, reason: str) -> None:
        self._tell({"kind": "Status", "status": "Failure", "reason": reason}, status)

    def _tell(self, body: Object, status: int = 200) -> None:
        self._answer(status, json.dumps(body).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""
