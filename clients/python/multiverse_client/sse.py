"""Server-sent events out of bytes, however they are cut. Knows no network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from multiverse_client.errors import ConnectionFailed


class SseReader:
    """Feed it; it gives the JSON of each event that is complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Lines end with a line feed here: other separators may stand inside a text.

        ConnectionFailed for data that is not a JSON object.
        """
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                yield _object(b"\n".join(self._data))
                self._data.clear()


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConnectionFailed(f"no event of this API: {data[:100]!r}", started=True)
    return value
