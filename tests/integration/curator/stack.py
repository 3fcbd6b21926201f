"""The curator service as processes: Redis, API replicas, workers; each may be killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
from redis import Redis
from redis.exceptions import RedisError

from multiverse_curator.source import Source
from tests.e2e.load import eventually
from tests.integration.curator.databases import free_port

START_WITHIN_S = 300.0
TEACHER = "scripted"


class CuratorStack:
    """`teacher_url`: a server that speaks Gemini's protocol, as the teacher `scripted`."""

    def __init__(
        self,
        database: str,
        teacher_url: str | None = None,
        *,
        replicas: int = 1,
        workers: int = 1,
        teacher: str = "",
        **settings: object,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="curator"))
        self.redis_port = free_port()
        self.ports = [free_port() for _ in range(replicas)]
        self._workers = workers
        self._teacher_url = teacher_url
        self._teacher_more = teacher
        given = {
            "database": database,
            "redis": f"redis://127.0.0.1:{self.redis_port}/0",
            "teachers_file": self.folder / "teachers.toml",
            "dataset_folder": self.folder / "datasets",
            "input_folder": self.folder,
            "threads": 16,
            "lease_s": 60.0,
            "tick_s": 0.3,
            "log_level": "WARNING",
            **settings,
        }
        names = {f"MULTIVERSE_CURATOR_{name.upper()}": str(one) for name, one in given.items()}
        self.environment = {**os.environ, "TEACHER_KEY": "key", "OMP_NUM_THREADS": "1", **names}
        self.apis: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def __enter__(self) -> CuratorStack:
        if self._teacher_url:
            table = f'[{TEACHER}]\nkind = "gemini"\nmodel = "scripted"\ntimeout_s = 20.0\n'
            table += f'base_url = "{self._teacher_url}"\napi_key_env = "TEACHER_KEY"\n'
            table += "price_input = 10.0\nprice_output = 100.0\n" + self._teacher_more
        else:
            table = ""
        (self.folder / "teachers.toml").write_text(table, "utf-8")
        self.start_redis()
        for port in self.ports:
            self.apis.append(self._spawn("api", {"MULTIVERSE_CURATOR_PORT": str(port)}))
        for _ in range(self._workers):
            self.start_worker()
        for port in self.ports:
            eventually(lambda port=port: _ready(port), "an API that is ready", START_WITHIN_S)  # type: ignore[misc]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with ExitStack() as last:
            last.callback(shutil.rmtree, self.folder, ignore_errors=True)
            if kind is not None:
                sys.stderr.write(self.logs())
            for process in [*self.apis, *self.workers, self._redis]:
                process.kill()
                process.wait()

    def logs(self) -> str:
        """What all processes had to say."""
        texts = [path.read_text("utf-8", "replace") for path in self.folder.glob("*.log")]
        return "\n".join(texts)[-20_000:]

    def start_redis(self) -> None:
        """Keeps nothing: one that is started again is empty."""
        program = shutil.which("redis-server")
        assert program, "no redis-server: install it (scripts/setup.sh all)"
        command = [program, "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--appendonly", "no", "--dir", str(self.folder)]
        with (self.folder / "redis.log").open("ab") as log:
            self._redis = subprocess.Popen(command, stdout=log, stderr=log)
        client = Redis(port=self.redis_port)
        try:
            eventually(lambda: _pongs(client), "a Redis that answers", START_WITHIN_S)
        finally:
            client.close()

    def kill_redis(self) -> None:
        self._redis.kill()
        self._redis.wait()

    def start_worker(self) -> subprocess.Popen[bytes]:
        worker = self._spawn("worker", {})
        self.workers.append(worker)
        return worker

    def kill_worker(self, pid: int) -> None:
        """kill -9."""
        worker = next(one for one in self.workers if one.pid == pid)
        os.kill(pid, signal.SIGKILL)
        worker.wait()
        self.workers.remove(worker)

    def _spawn(self, command: str, more: dict[str, str]) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-W", "ignore", "-m", "multiverse_curator", command]
        name = f"{command}-{len(self.apis)}-{len(self.workers)}.log"
        with (self.folder / name).open("ab") as log:
            return subprocess.Popen(
                arguments, env={**self.environment, **more}, stdout=log, stderr=log
            )

    def client(self, replica: int = 0, **options: Any) -> httpx.Client:
        base = f"http://127.0.0.1:{self.ports[replica]}"
        return httpx.Client(base_url=base, timeout=120.0, **options)


def upload(client: httpx.Client, sources: Iterable[Source], **options: object) -> str:
    """Id of the job."""
    import json

    rows = "\n".join(source.model_dump_json() for source in sources)
    response = client.post(
        "/v1/jobs/upload",
        files={"file": ("in.jsonl", rows.encode())},
        data={"options": json.dumps(options)},
    )
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def job_of(client: httpx.Client, job: str) -> dict[str, Any]:
    response = client.get(f"/v1/jobs/{job}")
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def until(client: httpx.Client, job: str, state: str, within_s: float = 300.0) -> dict[str, Any]:
    """The job when it has come to that state."""
    eventually(lambda: job_of(client, job)["state"] == state, f"a job that is {state}", within_s)
    return job_of(client, job)


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready", timeout=30).status_code == 200
    except httpx.TransportError:
        return False


def _pongs(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False
