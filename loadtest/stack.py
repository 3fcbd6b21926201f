"""A router and simulator workers as processes, to be loaded; a worker may be killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from multiverse_cli.stack import free_port

START_S = 60.0
STOP_S = 30.0
WORKER: dict[str, Any] = {
    "engine": "sim",
    "sim_speed": 4,
    "sim_prefill_tokens_per_s": 20_000,
    "sequences": 4096,
    "max_branches": 8192,
    "batch_tokens": 8192,
    "kv_cells": 2_000_000,
}


@dataclass(slots=True)
class LoadedStack:
    """Enter `running`. Settings are fields of the processes' settings, by name."""

    model: Path
    workers: int = 1
    worker_settings: dict[str, Any] = field(default_factory=dict)
    router_settings: dict[str, Any] = field(default_factory=dict)
    port: int = 0
    grpc_port: int = 0
    metrics_ports: list[int] = field(default_factory=list)  # of the workers
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _given: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[LoadedStack]:
        """Inside, the router is ready."""
        ports = [free_port() for _ in range(self.workers)]
        self.metrics_ports = [free_port() for _ in ports]
        self.port, self.grpc_port = free_port(), free_port()
        try:
            for number, port in enumerate(ports):
                own = {
                    "model": self.model,
                    "port": port,
                    "metrics_port": self.metrics_ports[number],
                }
                self._spawn("worker", number, {**WORKER, **own, **self.worker_settings})
            addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
            own = {"port": self.port, "grpc_port": self.grpc_port, "workers": addresses}
            self._spawn("router", 0, {"max_requests": 4096, **own, **self.router_settings})
            self._wait_until_ready()
            yield self
        finally:
            self._stop()

    def kill(self, number: int = 0) -> None:
        """A worker ends as by a power cut."""
        child = self._children[f"worker {number}"]
        child.send_signal(signal.SIGKILL)
        child.wait()

    def revive(self, number: int = 0) -> None:
        """It starts again, where it was."""
        self._start(f"worker {number}")

    def rss_mb(self, name: str = "router 0") -> float:
        """Memory of a child."""
        status = Path(f"/proc/{self._children[name].pid}/status").read_text("utf-8")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def _spawn(self, kind: str, number: int, settings: dict[str, Any]) -> None:
        named = {"log_level": "WARNING", **settings}
        prefix = f"MULTIVERSE_{kind.upper()}_"
        name = f"{kind} {number}"
        self._given[name] = {prefix + key.upper(): str(value) for key, value in named.items()}
        self._start(name)

    def _start(self, name: str) -> None:
        command = [sys.executable, "-m", f"multiverse_{name.split()[0]}"]
        environment = os.environ | self._given[name]
        self._children[name] = subprocess.Popen(command, env=environment)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while not self._is_ready():
            ended = [name for name, child in self._children.items() if child.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"no router is ready; ended: {', '.join(ended) or 'none'}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", timeout=5, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def _stop(self) -> None:
        for child in reversed(self._children.values()):
            child.terminate()
            try:
                child.wait(STOP_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
