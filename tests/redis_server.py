"""A Redis server of the test's own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from redis import Redis
from redis.exceptions import RedisError

_START_WITHIN_S = 30.0


@dataclass(frozen=True)
class RedisServer:
    """In memory only."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def redis_server(*arguments: str, port: int = 0) -> Iterator[RedisServer]:
    """Started, and answering; ended with the scope. `arguments` go to the server; 0: any port."""
    program = shutil.which("redis-server")
    assert program, "the tests need redis-server: apt-get install redis-server"
    if not port:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    with TemporaryDirectory() as folder:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        command = [program, *options, *arguments]
        with (
            Path(folder, "log").open("wb") as log,
            subprocess.Popen(command, stdout=log) as process,
        ):
            try:
                _wait_for(port, process)
                yield RedisServer(port, process)
            finally:
                process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_WITHIN_S
    while True:
        assert process.poll() is None, "redis-server did not start"
        try:
            with Redis(port=port) as client:
                client.ping()
            return
        except RedisError:
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.02)
