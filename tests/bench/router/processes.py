"""Child processes on cores of their own, and what they cost."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

START_S = 60.0
STOP_S = 10.0
_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED: nanoseconds of all threads of a process


class Child:
    """A process pinned to `core`, from its first thread on."""

    def __init__(
        self, command: list[str], settings: dict[str, str], core: int, log: Path | None = None
    ) -> None:
        output = log.open("ab") if log else None
        self._process = subprocess.Popen(
            command, env=os.environ | settings, stdout=output, stderr=output
        )
        os.sched_setaffinity(self._process.pid, {core})
        if output:
            output.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def cpu_s(self) -> float:
        """CPU seconds used so far, system time included."""
        return time.clock_gettime((~self._process.pid << 3) | _PROCESS_CLOCK)

    def rss_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text("utf-8")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running(
    command: list[str],
    settings: dict[str, str],
    core: int,
    port: int,
    log: Path | None = None,
    ready: Callable[[int], bool] | None = None,
) -> Iterator[Child]:
    """A child that is `ready` (listens) on `port`; it is stopped at the end."""
    child = Child(command, settings, core, log)
    try:
        deadline = time.monotonic() + START_S
        while not (ready or listens)(port):
            if not child.alive or time.monotonic() > deadline:
                raise RuntimeError(f"{command} is not ready on port {port}")
            time.sleep(0.1)
        yield child
    finally:
        child.stop()


def listens(port: int) -> bool:
    """Whether somebody takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def says_ready(port: int) -> bool:
    """Whether the router there has its worker."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready", timeout=5, trust_env=False).is_success
    except httpx.TransportError:
        return False
