"""A router that has sent nothing yet knows what real workers hold, from what they tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from multiverse_router.placement.prefix_index import prefix_keys
from tests.e2e.conftest import MODEL
from tests.e2e.tier.replicas import Router, replicas

WITHIN_S = 60.0
POLL_S = 0.02
PROMPTS = [f"Add up {', '.join(str(n * k) for n in range(3, 60))}." for k in range(2, 8)]

pytestmark = pytest.mark.timeout(300)


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - of any state, not of one event
            await asyncio.sleep(POLL_S)


def held(router: Router, prompt: str) -> dict[str, int]:
    """Tokens of the prompt by the worker that has them, as the router believes."""
    model = router.answers.model()
    keys = prefix_keys(router.request(prompt, "").prompt, model.namespace)
    return router.fleet.prefixes.coverage(keys)


async def test_prompts_go_where_another_router_has_sent_them_before() -> None:
    async with (
        replicas(MODEL, 2, kv_cells="65536", idle_cells="1024") as workers,
        workers.router(placement="round_robin", siblings="local") as first,
        workers.router(placement="prefix_affinity") as second,
    ):
        await first.ask(PROMPTS, tenant="")
        await eventually(lambda: all(held(second, prompt) for prompt in PROMPTS))
        apart = [prompt for prompt in PROMPTS if len(held(second, prompt)) == 1]
        pool, went = second.fleet.pool(second.answers.model()), set()
        for prompt in apart:
            [(address, tokens)] = held(second, prompt).items()
            assert address in held(first, prompt)
            assert tokens >= 128
            prefix = pool.prefix(second.request(prompt, "").prompt, b"")
            assert pool.root(prefix).address == address
            went.add(address)
        assert went == set(workers.metrics_urls)
