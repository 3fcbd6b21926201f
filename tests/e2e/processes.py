"""Processes of a test: what is alive, whose child it is, and a stack whose parts may be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from multiverse_cli.stack import Stack
from tests.e2e.load import eventually

COMMAND = [sys.executable, "-m", "multiverse_cli.main"]
START_WITHIN_S = 60.0


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def children_of(pid: int) -> dict[int, str]:
    """Command lines of the running children, by process id."""
    found: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text("utf-8").rpartition(")")[2].split()[1])
            if parent == pid and alive(int(folder.name)):
                command = (folder / "cmdline").read_bytes()
                found[int(folder.name)] = command.replace(b"\0", b" ").decode()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """The process does nothing inside: what is in flight stays in flight."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGCONT)


@contextmanager
def command(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The `multiverse` command at work; it and its children are killed at the end."""
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen([*COMMAND, *arguments], stdout=out, stderr=err)
    seen: set[int] = set()
    try:
        yield process
        seen |= children_of(process.pid).keys()
    finally:
        for pid in {*seen, *children_of(process.pid)}:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


class BreakableStack(Stack):
    """A stack whose children may be ended; `heal` starts them again where they were."""

    def __enter__(self) -> BreakableStack:
        self._settings: dict[str, dict[str, str]] = {}
        super().__enter__()
        return self

    def _spawn(self, name: str, settings: dict[str, str]) -> None:
        self._settings[name] = settings
        super()._spawn(name, settings)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.process_id(name), number)

    def ended(self, name: str) -> bool:
        return self._children[name].poll() is not None

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/ready", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def heal(self) -> None:
        """Start again what has ended, and wait until answers work."""
        for name in ("worker", "router"):
            if self.ended(name):
                self._spawn(name, self._settings[name])
        eventually(self.is_ready, "a router that is ready", START_WITHIN_S)
