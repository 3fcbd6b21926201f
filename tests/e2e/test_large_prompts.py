"""A prompt far over the context is refused, and nobody else waits for that."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from multiverse_cli.stack import Stack

CHARACTERS = 600_000
PAUSE_S = 0.02


def test_other_clients_are_served_while_a_large_prompt_is_read(stack: Stack) -> None:
    prompt = "<Path>1" * (CHARACTERS // 7)

    def post() -> httpx.Response:
        return httpx.post(f"{stack.url}/v1/generate", json={"prompt": prompt}, timeout=60)

    longest = 0.0
    with ThreadPoolExecutor(1) as pool, httpx.Client(base_url=stack.url, timeout=60) as other:
        begun = time.monotonic()
        refused = pool.submit(post)
        while not refused.done():
            asked = time.monotonic()
            assert other.get("/health").status_code == 200
            longest = max(longest, time.monotonic() - asked)
            time.sleep(PAUSE_S)
        took = time.monotonic() - begun
    assert refused.result().status_code == 413
    assert longest < max(0.3, took / 2), f"a client waited {longest:.1f} s of {took:.1f} s"
