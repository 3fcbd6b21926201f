"""How late a server's event loop is, and its memory, while a load runs.

A request for `/health` on a kept-open connection, ten times a second: it needs no work, so what
it takes is how long the loop was busy with other things, and the probe's own turn.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field

from tests.bench.router.processes import Child

INTERVAL_S = 0.1
_REQUEST = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
_LENGTH = re.compile(rb"(?i)content-length: (\d+)")


@dataclass(slots=True)
class Probe:
    """Fills while `run` runs."""

    child: Child
    port: int
    lags_ms: list[float] = field(default_factory=list)
    rss_mb: float = 0.0  # the most that was seen

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            while True:
                begun = time.monotonic()
                writer.write(_REQUEST)
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                self.lags_ms.append((time.monotonic() - begun) * 1000)
                self.rss_mb = max(self.rss_mb, self.child.rss_mb())
                await asyncio.sleep(INTERVAL_S)
        finally:
            writer.close()
