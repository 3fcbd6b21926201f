"""Requests at a steady rate, and what became of each.

A client does what clients do: it tries again when it is refused or its connection breaks, and is
content with the first answer that ends. What it was told is compared with an undisturbed answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx

MOST_S = 60.0  # of one request, all its tries together
PAUSE_S = 0.2
Told = dict[str, list[int]]  # ids by path


class BrokenError(Exception):
    """The stream ended without an end."""


@dataclass
class Answer:
    """One answer that was read to its end."""

    ids: Told
    last: dict[str, Any]


@dataclass
class Outcomes:
    """Counts of a run."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def wrong(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self.faults.append(f"{kind}: {what}")


async def events(
    client: httpx.AsyncClient, url: str, body: dict[str, Any]
) -> AsyncIterator[dict[str, Any]]:
    """Those of one answer, to its end.

    httpx.HTTPError, httpx.HTTPStatusError when it was refused, BrokenError.
    """
    async with client.stream("POST", f"{url}/v1/generate", json=body) as response:
        response.raise_for_status()
        expected = itertools.count()
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            if event["seq"] != next(expected):
                raise BrokenError(f"event {event['seq']} is out of order")
            yield event
            if event["type"] in ("finish", "error"):
                return
    raise BrokenError("the stream ended without finish and without error")


async def read(client: httpx.AsyncClient, url: str, body: dict[str, Any]) -> Answer:
    """One answer."""
    ids: Told = {}
    last: dict[str, Any] = {}
    async for last in events(client, url, body):
        if last["type"] == "text":
            ids.setdefault(last["path"], []).extend(last["token_ids"])
    return Answer(ids, last)


class Load:
    """`asked` are bodies of requests, `expected` their undisturbed answers."""

    def __init__(self, urls: list[str], asked: list[dict[str, Any]], expected: list[Told]) -> None:
        self._urls = urls
        self._asked = asked
        self._expected = expected
        self.outcomes = Outcomes()
        self._stopped = False

    def stop(self) -> None:
        """Begin no more; those that were begun go on."""
        self._stopped = True

    async def run(self, requests: int, per_s: float) -> None:
        limits = httpx.Limits(max_connections=512)
        async with (
            httpx.AsyncClient(timeout=MOST_S, limits=limits, trust_env=False) as client,
            asyncio.TaskGroup() as tasks,
        ):
            for number in range(requests):
                if self._stopped:
                    return
                tasks.create_task(self._one(client, number))
                await asyncio.sleep(1 / per_s)

    async def _one(self, client: httpx.AsyncClient, number: int) -> None:
        counts = self.outcomes.counts
        try:
            async with asyncio.timeout(MOST_S):
                for attempt in itertools.count():
                    if await self._try(client, number, attempt):
                        return
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            self.outcomes.wrong("hung", f"request {number}")
        finally:
            counts["requests"] += 1

    async def _try(self, client: httpx.AsyncClient, number: int, attempt: int) -> bool:
        """Whether the request has come to its end."""
        url = self._urls[(number + attempt) % len(self._urls)]
        counts = self.outcomes.counts
        try:
            told = await read(client, url, self._asked[number % len(self._asked)])
        except httpx.HTTPStatusError as error:
            counts[f"refused_{error.response.status_code}"] += 1
            return False
        except httpx.ConnectError:
            counts["refused_connection"] += 1
            return False
        except httpx.HTTPError:
            counts["cut_by_router"] += 1  # told by the connection: it breaks
            return False
        except BrokenError as error:
            self.outcomes.wrong("lost", f"request {number}: {error}")
            return True
        if told.last["type"] == "error":
            counts["error_events"] += 1
            counts[f"error_{told.last['kind']}"] += 1
            return True
        counts["finished"] += 1
        self._compare(number, told.ids, self._expected[number % len(self._expected)])
        return True

    def _compare(self, number: int, ids: Told, expected: Told) -> None:
        if ids == expected:
            return
        longer = any(len(said) > len(expected.get(path, [])) for path, said in ids.items())
        kind = "duplicated" if longer else "differs"
        for path in sorted(ids.keys() | expected.keys()):
            said, meant = ids.get(path, []), expected.get(path, [])
            if said != meant:
                at = next(
                    (n for n, (a, b) in enumerate(zip(said, meant, strict=False)) if a != b),
                    min(len(said), len(meant)),
                )
                what = f"path {path} at {at}: {len(said)} tokens, {len(meant)} expected"
                self.outcomes.wrong(kind, f"request {number}, {what}")
                return
