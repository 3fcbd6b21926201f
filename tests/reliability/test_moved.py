"""A worker with a real model is killed in the middle of answers: the tokens stay the same.

F32, so greedy decoding is exact whatever the batch; draws are counter-based, so sampled answers go
on alike, too.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.answers import FLAT, NESTED
from tests.reliability.chaos.load import Told, events
from tests.reliability.chaos.parts import Parts, fleet
from tests.reliability.chaos.run import LLAMACPP, MODEL

ROUTER = {"SIBLINGS": "spread", "REROUTE_S": "60"}
ASKED: dict[str, dict[str, Any]] = {
    "greedy": {"prompt": NESTED},
    "sampled": {"prompt": FLAT, "temperature": 0.7, "top_p": 0.95, "seed": 11},
}


async def branches(client: httpx.AsyncClient, url: str) -> dict[str, float]:
    """In flight, by worker."""
    text = (await client.get(f"{url}/metrics")).text
    return {
        sample.labels["worker"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "multiverse_router_worker_branches"
    }


async def kill_one_that_works(parts: Parts, client: httpx.AsyncClient) -> str:
    """All are frozen, so that there is time to look; the busiest one dies."""
    for worker in parts.workers:
        worker.signal(signal.SIGSTOP)
    found = await branches(client, parts.url(0))
    busiest = max(found, key=lambda address: found[address])
    for worker, proxy in zip(parts.workers, parts.proxies, strict=True):
        mine = busiest == f"127.0.0.1:{proxy.port}"
        worker.signal(signal.SIGKILL if mine and found[busiest] else signal.SIGCONT)
    return busiest if found[busiest] else ""


async def ids_of(
    client: httpx.AsyncClient, url: str, asked: dict[str, Any], at: int = -1, parts: Any = None
) -> tuple[Told, str]:
    """Ids by path; at event `at` a worker dies, whose address is told."""
    ids: Told = {}
    died = ""
    number = 0
    async for event in events(client, url, {"max_tokens": 400, **asked}):
        if event["type"] == "text":
            ids.setdefault(event["path"], []).extend(event["token_ids"])
        assert event["type"] != "error", event
        if number == at:
            died = await kill_one_that_works(parts, client)
        number += 1
    return ids, died


@pytest.mark.timeout(300)
async def test_answers_go_on_with_the_same_tokens_when_their_worker_dies(tmp_path: Path) -> None:
    deaths = 0
    async with (
        fleet(
            tmp_path, MODEL, workers=2, routers=1, worker_settings=LLAMACPP, router_settings=ROUTER
        ) as parts,
        httpx.AsyncClient(timeout=120, trust_env=False) as client,
    ):
        for asked in ASKED.values():
            calm, _ = await ids_of(client, parts.url(0), asked)
            for at in (2, 12, 30):
                ids, died = await ids_of(client, parts.url(0), asked, at, parts)
                assert ids == calm, f"a worker died at event {at}"
                deaths += bool(died)
                for worker in parts.workers:
                    if worker.ended:
                        worker.start()
                await parts.ready(2)
    assert deaths >= 3, "the test should kill a worker that is at work"
