"""Blocks in a Mooncake store: memory that the workers themselves lend, found through a master.

The store evicts by itself when its segments fill up; it knows no time to live, and a block that
is read is kept as one used lately. Its client waits, so it is called in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

from multiverse_worker.tier.backend import Backend, BackendError, BackendFull
from multiverse_worker.tier.pieces import Name

_PREFIX = "mv-tier/"
_THREADS = 8
_NO_ROOM = -200
_BUFFER_BYTES = 256 << 20
_DEFAULTS = {"host": "127.0.0.1", "protocol": "tcp", "devices": ""}

T = TypeVar("T")


class Store(Protocol):
    """What is used of `mooncake.store.MooncakeDistributedStore`; each call may take its time."""

    def get_batch(self, keys: list[str], /) -> list[bytes]:
        """Empty bytes for what is not there."""

    def upsert(self, key: str, value: bytes, /) -> int:
        """0, or a negative error."""

    def close(self) -> int:
        """0, or a negative error."""


def open_store(url: str, lent_bytes: int) -> Store:
    """The client for mooncake://MASTER:PORT?host=OWN&protocol=tcp|rdma&devices=NAMES.

    It lends `lent_bytes` of this process to the store. ValueError when the URL is wrong or the
    master can't be reached, ModuleNotFoundError without the package.
    """
    parts = urlsplit(url)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if unknown := given.keys() - _DEFAULTS.keys():
        raise ValueError(f"knows no option {min(unknown)}; there are {', '.join(_DEFAULTS)}")
    options = _DEFAULTS | given
    from mooncake.store import MooncakeDistributedStore

    store = MooncakeDistributedStore()
    memory = (lent_bytes, _BUFFER_BYTES)
    network = (options["protocol"], options["devices"], parts.netloc)
    if failed := store.setup(options["host"], "P2PHANDSHAKE", *memory, *network):
        raise ValueError(f"no Mooncake master at {parts.netloc} (error {failed}); start one")
    opened: Store = store
    return opened


class MooncakeBackend(Backend):
    """Takes the store over, and closes it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mooncake")

    async def get(self, names: Sequence[Name]) -> list[bytes | None]:
        keys = [_PREFIX + name.hex() for name in names]
        return [block or None for block in await self._call(lambda: self._store.get_batch(keys))]

    async def put(self, name: Name, block: bytes) -> None:
        error = await self._call(lambda: self._store.upsert(_PREFIX + name.hex(), block))
        if error == _NO_ROOM:
            raise BackendFull("the segments of the store are full")
        if error:
            raise BackendError(f"the store says {error}")

    async def _call(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except RuntimeError as error:
            raise BackendError(str(error)) from error

    async def close(self) -> None:
        # A call that was given up may still run: the store must not go before it.
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._store.close)
