"""One SGLang engine for all tests: on a CPU, with overlap, its accounting checked every step.

They run in the virtual environment of `make setup-sglang`, and are left out elsewhere.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "models" / "multiverse-tiny"
KV_CELLS = 2560
ARGUMENTS = {"chunked_prefill_size": 128, "enable_mixed_chunk": True}
collect_ignore_glob = [] if find_spec("sglang") else ["test_*.py"]

if find_spec("sglang"):
    import torch

    from multiverse_worker.engines.sglang.engine import SglangEngine
    from tests.conformance.oracle import Oracle
    from tests.sglang.player import Player

    @pytest.fixture(scope="session")
    def engine() -> Iterator[SglangEngine]:
        from tests.conformance.engines import sglang

        torch.set_num_threads(1)
        threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            running = sglang(MODEL, MODEL, threads, kv_cells=KV_CELLS, **ARGUMENTS)
        assert isinstance(running, SglangEngine)
        yield running
        running.close()

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
