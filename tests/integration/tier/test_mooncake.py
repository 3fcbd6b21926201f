"""The Mooncake backend over a double of the store's client; `make test-mooncake` has the real one.

The double answers as the client of mooncake-transfer-engine 0.3.13 was seen to.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest

from multiverse_worker.tier.backend import BackendError, BackendFull
from multiverse_worker.tier.mooncake_backend import MooncakeBackend
from tests.integration.tier.conformance import NAMES, BackendConformance


class StoreDouble:
    """`code` is the answer to each put."""

    def __init__(self) -> None:
        self._blocks: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self.code = 0
        self.closed = False

    def get_batch(self, keys: list[str], /) -> list[bytes]:
        with self._lock:
            return [self._blocks.get(key, b"") for key in keys]

    def upsert(self, key: str, value: bytes, /) -> int:
        with self._lock:
            if self.code == 0:
                self._blocks[key] = value
            return self.code

    def close(self) -> int:
        self.closed = True
        return 0


@pytest.fixture
def store() -> StoreDouble:
    return StoreDouble()


@pytest.fixture
async def backend(store: StoreDouble) -> AsyncIterator[MooncakeBackend]:
    opened = MooncakeBackend(store)
    yield opened
    await opened.close()
    assert store.closed


class TestMooncake(BackendConformance):
    """What every backend must do."""


async def test_a_full_store_says_so(backend: MooncakeBackend, store: StoreDouble) -> None:
    store.code = -200
    with pytest.raises(BackendFull):
        await backend.put(NAMES[0], b"block")


async def test_any_other_code_is_an_error(backend: MooncakeBackend, store: StoreDouble) -> None:
    store.code = -700
    with pytest.raises(BackendError, match="-700"):
        await backend.put(NAMES[0], b"block")
