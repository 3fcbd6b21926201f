"""A visit: one call of a client, over HTTP or gRPC, from its first header to its end.

What the edge learned of the caller reaches the answers through the context of the task, so no
API has to hand it on.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from multiverse_router.limits.admissions import Grant
from multiverse_shared.tracing import NO_SPAN, Span

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


@dataclass(slots=True)
class Visit:
    """Filled in on the way."""

    id: str
    tenant: str = ""  # name of the key; empty when there are none
    deadline: float | None = None  # on the monotonic clock, from a header
    model: str = ""  # name of the served model that it asks, once that is known
    answers: list[str] = field(default_factory=list)  # ids of what was begun for it
    told: bool = False  # its whole answer was handed over
    over: Callable[[], bool] = lambda: False  # nothing follows what was taken of its answers
    left: str | None = None  # how it ended before its answer did: `client`, `stalled`
    span: Span = NO_SPAN  # of the call
    body: bytes | None = None  # kept only where the log may hold prompts
    grants: dict[str, Grant] = field(default_factory=dict)  # of answers that have not begun

    @classmethod
    def begin(cls, headers: Mapping[str, str]) -> Visit:
        """With the caller's own id where that is a plain short word, else a new one."""
        given = headers.get("x-request-id", "")
        return cls(given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(16))

    def end(self) -> None:
        """What was let in for it and has not begun will not begin."""
        while self.grants:
            self.grants.popitem()[1].end()

    def bounded(self, deadline_s: float | None) -> float | None:
        """The seconds that an answer has from now on: the shorter of body and header."""
        if self.deadline is None:
            return deadline_s
        left = max(0.0, self.deadline - time.monotonic())
        return left if deadline_s is None else min(left, deadline_s)


current: ContextVar[Visit | None] = ContextVar("visit", default=None)


def current_visit() -> Visit:
    """The visit that this task works for; begun here outside any."""
    visit = current.get()
    if visit is None:
        visit = Visit("")
        current.set(visit)
    return visit


def current_tenant() -> str:
    return current_visit().tenant


def about() -> dict[str, str]:
    """What a line of the log is about: the request that this task works for, if it does."""
    visit = current.get()
    return {"request_id": visit.id, "tenant": visit.tenant} if visit else {}
