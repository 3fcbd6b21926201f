"""One SGLang engine for most tests: on a CPU, with overlap, its accounting checked every step.

It has a tier, into which it puts nothing by itself, and which is empty but for what the tests
of the tier put there.

They run in the virtual environment of `make setup-sglang`, and are left out elsewhere.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

MODEL = Path(__file__).parents[2] / "models" / "multiverse-tiny"
KV_CELLS = 2560
TIER_TIMEOUT_S = 2.0
ARGUMENTS: dict[str, Any] = {"chunked_prefill_size": 128, "enable_mixed_chunk": True}
collect_ignore_glob = [] if find_spec("sglang") else ["test_*.py"]

if find_spec("sglang"):
    import torch

    from multiverse_worker.engines.sglang.engine import SglangEngine
    from multiverse_worker.tier.settings import TierSettings
    from tests.conformance.oracle import Oracle
    from tests.redis_server import RedisServer, redis_server
    from tests.sglang.player import Player

    @contextmanager
    def started(redis: RedisServer, prefixes: str) -> Iterator[SglangEngine]:
        """An engine that fetches whatever it lacks; ended with the scope."""
        from tests.conformance.engines import sglang

        torch.set_num_threads(1)
        threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        tier = TierSettings(
            tier_url=redis.url,
            tier_fetch="always",
            tier_prefixes=prefixes,
            tier_timeout_s=TIER_TIMEOUT_S,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            running = sglang(MODEL, MODEL, threads, kv_cells=KV_CELLS, tier=tier, **ARGUMENTS)
        assert isinstance(running, SglangEngine)
        try:
            yield running
        finally:
            running.close()

    @pytest.fixture(scope="session")
    def redis() -> Iterator[RedisServer]:
        with redis_server() as server:
            yield server

    @pytest.fixture(scope="session")
    def engine(redis: RedisServer) -> Iterator[SglangEngine]:
        with started(redis, "never") as running:
            yield running

    @pytest.fixture(scope="session")
    def elsewhere(redis: RedisServer) -> Iterator[SglangEngine]:
        """A second engine, on the same tier."""
        with started(redis, "always") as running:
            yield running

    @pytest.fixture(scope="session")
    def oracle() -> Oracle:
        return Oracle(MODEL)

    @pytest.fixture
    def player(engine: SglangEngine) -> Iterator[Player]:
        """A stream of its own; afterwards nothing may be held."""
        engine.drop_cached()
        player = Player(engine)
        yield player
        player.settle()
        player.assert_nothing_is_held()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))  # the first one waits for the engine
            item.add_marker(pytest.mark.filterwarnings("ignore"))
