"""Faults on command: what a worker does wrong, and when.

    FAULTS  = FAULT ";" FAULT ...
    FAULT   = KIND [ "@" KEY "=" VALUE "," ... ]
    KIND    = die | stall | break_stream | lie_load
    KEY     = after   100tokens (drawn by all branches) or 2.5s; at once if left out
              for     2.5s: how long a stall or a lie lasts; for ever if left out
              running, waiting, leases, kv_cells_free: what a lie says

`die` ends the process as a kill would; `stall` computes nothing and says nothing; `break_stream`
breaks every stream of a router once; `lie_load` reports a load that is not so. They come from
the settings at the start, and from a control file whenever that changes: what stands in it
counts from then on, and takes the place of what stood in it before.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.contract import Load

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(tokens|s)")
_LIES = ("running", "waiting", "leases", "kv_cells_free")

log = logging.getLogger(__name__)


class FaultKind(StrEnum):
    DIE = "die"
    STALL = "stall"
    BREAK_STREAM = "break_stream"
    LIE_LOAD = "lie_load"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; counts from when it is armed."""

    kind: FaultKind
    after_tokens: int = 0
    after_s: float = 0.0
    for_s: float = float("inf")
    lies: dict[str, int] = field(default_factory=dict)


def parse_faults(text: str) -> list[Fault]:
    """InvalidRequest says what can't be read."""
    return [_fault(part.strip()) for part in re.split(r"[;\n]", text) if part.strip()]


def _fault(text: str) -> Fault:
    kind, _, rest = text.partition("@")
    if kind not in set(FaultKind):
        raise _unreadable(text, f"a fault is one of {', '.join(FaultKind)}")
    fault = Fault(FaultKind(kind))
    for pair in rest.split(",") if rest else ():
        key, _, value = pair.strip().partition("=")
        amount = _AMOUNT.fullmatch(value)
        if key == "after" and amount and amount[2] == "tokens":
            fault = replace(fault, after_tokens=int(float(amount[1])))
        elif key == "after" and amount:
            fault = replace(fault, after_s=float(amount[1]))
        elif key == "for" and amount and amount[2] == "s":
            fault = replace(fault, for_s=float(amount[1]))
        elif fault.kind is FaultKind.LIE_LOAD and key in _LIES and value.isdecimal():
            fault = replace(fault, lies={**fault.lies, key: int(value)})
        else:
            raise _unreadable(text, f"{pair!r} is not understood; see docs/simulator.md")
    return fault


def _unreadable(text: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"fault {text!r}: {reason}", field="sim_faults")


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(slots=True, eq=False)
class _Armed:
    fault: Fault
    since: float
    tokens: int  # drawn before it was armed
    begun: float | None = None  # when it first was due
    fired: bool = False


class Faults:
    """All faults of an engine. `break_streams` is set by whoever has the streams."""

    def __init__(
        self,
        text: str,
        control: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        die: Callable[[], None] = _killed,
    ) -> None:
        self.break_streams: Callable[[], None] = lambda: None
        self._clock = clock
        self._die = die
        self._tokens = 0
        self._own = self._arm(parse_faults(text))
        self._control = control
        self._controlled: list[_Armed] = []
        self._read: tuple[int, int] | None = None  # which state of the file was read

    def count(self, tokens: int) -> None:
        """So many tokens were drawn."""
        self._tokens += tokens
        self._fire()

    def poll(self) -> None:
        """Read the control file if it has changed, and do what is due."""
        if self._control:
            self._look(self._control)
        self._fire()

    def _fire(self) -> None:
        for armed in self._due(FaultKind.DIE, FaultKind.BREAK_STREAM):
            if not armed.fired:
                armed.fired = True
                log.warning("fault on command: %s", armed.fault.kind)
                (self._die if armed.fault.kind is FaultKind.DIE else self.break_streams)()

    @property
    def stalled(self) -> bool:
        return bool(self._due(FaultKind.STALL))

    def reported(self, load: Load) -> Load:
        """The load that is told."""
        for armed in self._due(FaultKind.LIE_LOAD):
            lies: dict[str, Any] = armed.fault.lies
            load = replace(load, **lies)
        return load

    def _due(self, *kinds: FaultKind) -> list[_Armed]:
        """Those that have begun and are not over."""
        if not self._own and not self._controlled:
            return []
        now = self._clock()
        found: list[_Armed] = []
        for armed in (*self._own, *self._controlled):
            fault = armed.fault
            enough = self._tokens - armed.tokens >= fault.after_tokens
            if armed.begun is None and enough and now - armed.since >= fault.after_s:
                armed.begun = now
            if armed.begun is not None and now - armed.begun < fault.for_s and fault.kind in kinds:
                found.append(armed)
        return found

    def _arm(self, faults: list[Fault]) -> list[_Armed]:
        now = self._clock()
        return [_Armed(fault, now, self._tokens) for fault in faults]

    def _look(self, control: Path) -> None:
        try:
            status = control.stat()
        except OSError:
            self._controlled, self._read = [], None
            return
        state = (status.st_mtime_ns, status.st_size)
        if state != self._read:
            self._read = state
            try:
                self._controlled = self._arm(parse_faults(control.read_text("utf-8")))
            except (InvalidRequest, OSError, UnicodeDecodeError) as error:
                self._controlled = []
                log.warning("%s: %s", control, error)
