"""A router and a worker as two child processes: all of Multiverse on one machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import httpx

from multiverse_cli.signals import held_back

START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
POLL_S = 0.1


class StackError(Exception):
    """A child process could not be started, or ended by itself."""


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(slots=True)
class Stack:
    """Use as a context manager: inside it, `url` answers and `/ready` says 200.

    `worker_settings` are fields of WorkerSettings, `router_settings` of RouterSettings, by name.
    """

    model: Path
    host: str = "127.0.0.1"
    port: int = 0  # 0 picks a free one
    grpc_port: int = 0  # likewise
    log_level: str = "WARNING"
    worker_settings: dict[str, str] = field(default_factory=dict)
    router_settings: dict[str, str] = field(default_factory=dict)
    worker_port: int = 0
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def grpc_address(self) -> str:
        return f"{self.host}:{self.grpc_port}"

    def process_id(self, name: str) -> int:
        """Of the child called `router` or `worker`."""
        return self._children[name].pid

    def __enter__(self) -> Stack:
        self.port = self.port or free_port()
        self.grpc_port = self.grpc_port or free_port()
        self.worker_port = self.worker_port or free_port()
        worker = {"MODEL": str(self.model), "PORT": str(self.worker_port)}
        worker |= {name.upper(): value for name, value in self.worker_settings.items()}
        router = {
            "HOST": self.host,
            "PORT": str(self.port),
            "GRPC_PORT": str(self.grpc_port),
            "WORKERS": f"127.0.0.1:{self.worker_port}",
        }
        router |= {name.upper(): value for name, value in self.router_settings.items()}
        try:
            self._spawn("worker", worker)
            self._wait(lambda: _listens(self.worker_port))
            self._spawn("router", router)
            self._wait(self._ready)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def wait(self) -> None:
        """Block until a child ends; StackError says which one."""
        while True:
            self._check()
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Ask the children to end, the router first; kill what does not."""
        children = [self._children[name] for name in ("router", "worker") if name in self._children]
        try:
            for child in children:
                child.terminate()
                with suppress(subprocess.TimeoutExpired):
                    child.wait(STOP_TIMEOUT_S)
        finally:  # also when a second signal breaks the waiting off
            for child in children:
                child.kill()
                child.wait()

    def _spawn(self, name: str, settings: dict[str, str]) -> None:
        prefix = f"MULTIVERSE_{name.upper()}_"
        settings = {"LOG_LEVEL": self.log_level, **settings}
        environment = {prefix + key: value for key, value in settings.items()}
        with held_back():  # or a child could be started that nobody ends
            self._children[name] = subprocess.Popen(
                [sys.executable, "-m", f"multiverse_{name}"],
                env=os.environ | environment,
                start_new_session=True,  # Ctrl-C reaches them through us, in order
            )

    def _wait(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not done():
            self._check()
            if time.monotonic() > deadline:
                raise StackError(f"not ready within {START_TIMEOUT_S:.0f} s; see the log above")
            time.sleep(POLL_S)

    def _ready(self) -> bool:
        """StackError when the router will not serve the worker's model."""
        try:
            answer = httpx.get(f"{self.url}/ready", timeout=1.0, trust_env=False)
        except httpx.TransportError:
            return False
        body = answer.json()
        if body["status"] == "refused":
            raise StackError(body["reason"])
        return answer.status_code == 200

    def _check(self) -> None:
        for name, child in self._children.items():
            if child.poll() is not None:
                raise StackError(f"the {name} ended with status {child.returncode}")
