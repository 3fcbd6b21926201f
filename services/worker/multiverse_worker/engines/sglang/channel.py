"""The scheduler's end of the channel to the worker. Knows sockets."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from pathlib import Path
from socket import socketpair
from typing import Any

import zmq

from multiverse_shared.errors import MultiverseError
from multiverse_worker.contract import Load
from multiverse_worker.engines.sglang.messages import (
    CHANNEL_VARIABLE,
    COMMANDS_SOCKET,
    REPORTS_SOCKET,
    TIER_FILE,
    Report,
    Verb,
)
from multiverse_worker.tier.settings import TierSettings


class Channel:
    """Two sockets in a folder that the worker made."""

    def __init__(self, scheduler: Any) -> None:
        folder = Path(os.environ[CHANNEL_VARIABLE])
        self._commands = zmq.Context.instance().socket(zmq.PULL)
        self._reports = zmq.Context.instance().socket(zmq.PUSH)
        for socket, name in (
            (self._commands, COMMANDS_SOCKET),
            (self._reports, REPORTS_SOCKET),
        ):
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.setsockopt(zmq.RCVHWM, 0)
            socket.connect(f"ipc://{folder / name}")
        if scheduler is not None and scheduler.idle_sleeper is not None:
            scheduler.idle_sleeper.poller.register(self._commands, zmq.POLLIN)

    def receive(self) -> list[tuple[Verb, Any]]:
        items: list[tuple[Verb, Any]] = []
        while True:
            try:
                items += pickle.loads(self._commands.recv(zmq.NOBLOCK))
            except zmq.Again:
                return items

    def send(self, report: Report) -> None:
        self._reports.send(pickle.dumps(report))


def refuse(error: MultiverseError) -> None:
    """Tell the worker why this scheduler can't serve."""
    Channel(None).send(Report(Load(0, 0, 0, 0, 0), refusal=error.message))


def tier_settings() -> TierSettings:
    """What the worker has left for the scheduler; without a tier if it has left nothing."""
    path = Path(os.environ[CHANNEL_VARIABLE]) / TIER_FILE
    if not path.exists():
        return TierSettings()
    settings: TierSettings = pickle.loads(path.read_bytes())
    return settings


class Bell:
    """Wakes a scheduler that sleeps. It may be rung from any thread."""

    def __init__(self, scheduler: Any) -> None:
        self._heard, self._rung = socketpair()
        for end in (self._heard, self._rung):
            end.setblocking(False)
        if scheduler.idle_sleeper is not None:
            scheduler.idle_sleeper.poller.register(self._heard, zmq.POLLIN)

    def ring(self) -> None:
        with suppress(BlockingIOError):  # it rings already
            self._rung.send(b"\0")

    def still(self) -> None:
        with suppress(BlockingIOError):
            while self._heard.recv(4096):
                pass
