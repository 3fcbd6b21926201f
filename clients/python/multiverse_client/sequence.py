"""The order of an answer's events, whatever transport they came over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from multiverse_client.errors import ConnectionFailed, error_of
from multiverse_client.events import Event, Finish, read_event


class Sequence:
    """Reads events one after another; raises for a gap, and for what ends an answer early."""

    def __init__(self) -> None:
        self._next = 0
        self._finished = False

    def read(self, data: Mapping[str, Any]) -> Event | None:
        """The event, or None for one of a type that is not known here."""
        if data.get("seq") != self._next:
            raise ConnectionFailed(
                f"event {self._next} of the answer did not come; ask again", started=True
            )
        self._next += 1
        if data.get("type") == "error":
            raise error_of(str(data.get("kind")), str(data.get("message")), started=True)
        event = read_event(data)
        self._finished = isinstance(event, Finish)
        return event

    @property
    def finished(self) -> bool:
        return self._finished

    def end(self) -> None:
        """Nothing more comes. ConnectionFailed when the answer has not ended."""
        if not self._finished:
            raise ConnectionFailed("the answer broke off before its end; ask again", started=True)
