"""The Mooncake backend against a real master and store, over TCP."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from multiverse_worker.tier.backend import BackendFull
from multiverse_worker.tier.mooncake_backend import MooncakeBackend, Store, open_store
from tests.integration.tier.conformance import NAMES, BackendConformance
from tests.reliability.rig import free_port

LENT_BYTES = 64 << 20
START_WITHIN_S = 30.0


@pytest.fixture
def master() -> Iterator[str]:
    """Address of a running master."""
    port = free_port()
    program = Path(sys.executable).parent / "mooncake_master"
    options = [f"-rpc_port={port}", f"-metrics_port={free_port()}"]
    with subprocess.Popen([program, *options], stderr=subprocess.DEVNULL) as process:
        yield f"127.0.0.1:{port}"
        process.kill()


@pytest.fixture
def store(master: str) -> Store:
    """Empty: what was read lately can't be removed."""
    deadline = time.monotonic() + START_WITHIN_S
    while True:
        try:
            return open_store(f"mooncake://{master}", LENT_BYTES)
        except ValueError:
            assert time.monotonic() < deadline, "the master does not answer"
            time.sleep(0.1)


@pytest.fixture
async def backend(store: Store) -> AsyncIterator[MooncakeBackend]:
    opened = MooncakeBackend(store)
    yield opened
    await opened.close()


class TestMooncake(BackendConformance):
    """What every backend must do."""


async def _fill(backend: MooncakeBackend, block: bytes) -> None:
    for number in itertools.count(1):
        await backend.put(number.to_bytes(32, "little"), block)


async def test_a_store_that_is_full_drops_old_blocks_and_goes_on(backend: MooncakeBackend) -> None:
    """It says that it is full until it has dropped some."""
    block = bytes(LENT_BYTES // 100)
    with pytest.raises(BackendFull):
        await _fill(backend, block)
    async with asyncio.timeout(START_WITHIN_S):
        while True:
            with suppress(BackendFull):
                await backend.put(NAMES[0], block)
                break
            await asyncio.sleep(0.1)
    assert await backend.get([NAMES[0]]) == [block]
