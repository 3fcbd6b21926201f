"""Workers that are asked to end while answers run: nothing breaks, new work goes elsewhere."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from tests.reliability.chaos.load import Load, read
from tests.reliability.chaos.parts import GRACE_S, Parts, fleet, until
from tests.reliability.chaos.run import MODEL, SIM, asked_of, undisturbed

STREAMS = 50
ASKED = asked_of("sim")
QUICK = {**SIM, "SIM_SPEED": "3"}
ROUTER = {"MAX_REQUESTS": "256", "PLACEMENT": "least_load"}
ENDS_WITHIN_S = float(GRACE_S) + 20.0  # a loaded machine


@pytest.mark.timeout(300)
async def test_a_worker_that_ends_under_fifty_streams_breaks_none(tmp_path: Path) -> None:
    async with fleet(
        tmp_path, MODEL, workers=2, routers=1, worker_settings=QUICK, router_settings=ROUTER
    ) as parts:
        load = Load([parts.url(0)], ASKED, await undisturbed(parts, ASKED))
        running = asyncio.create_task(load.run(STREAMS, per_s=200))
        await until(lambda: _running(parts, STREAMS), "fifty streams")
        begun = time.monotonic()
        parts.workers[0].signal(signal.SIGTERM)
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            later = await read(client, parts.url(0), ASKED[3])  # the other one takes it
        assert later.last["type"] == "finish"
        assert await parts.workers[0].gone(ENDS_WITHIN_S) == 0
        assert time.monotonic() - begun < ENDS_WITHIN_S
        await running
        assert load.outcomes.counts == Counter(requests=STREAMS, finished=STREAMS), (
            load.outcomes.faults
        )
        await parts.ready(1)
        assert await parts.running() == 0


async def _running(parts: Parts, count: int) -> bool:
    return await parts.running() >= count


@pytest.mark.timeout(300)
async def test_all_workers_may_be_restarted_under_load(tmp_path: Path) -> None:
    async with fleet(
        tmp_path, MODEL, workers=2, routers=1, worker_settings=QUICK, router_settings=ROUTER
    ) as parts:
        load = Load([parts.url(0)], ASKED, await undisturbed(parts, ASKED))
        running = asyncio.create_task(load.run(10_000, per_s=4))
        for worker in parts.workers:
            await asyncio.sleep(1)
            worker.signal(signal.SIGTERM)
            assert await worker.gone(ENDS_WITHIN_S) == 0
            worker.start()
            await parts.ready(len(parts.workers))
        load.stop()
        await running
        counts = load.outcomes.counts
        assert counts == Counter(requests=counts["requests"], finished=counts["requests"]), (
            load.outcomes.faults
        )
        assert counts["requests"] > 10
