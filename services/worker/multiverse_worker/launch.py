"""From settings to a running engine. An engine's libraries are imported when it is chosen."""

from __future__ import annotations

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.contract import Engine
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.settings import WorkerSettings


def launch(model: ModelDirectory, settings: WorkerSettings) -> Engine:
    """InvalidRequest names the engine whose libraries are not installed, and the remedy."""
    if settings.engine == "sim":
        from multiverse_worker.engines.sim import launch as sim

        return sim.launch(model, settings)
    if settings.engine == "sglang":
        try:
            from multiverse_worker.engines.sglang import launch as sglang
        except ModuleNotFoundError as error:
            raise InvalidRequest(
                f"engine sglang needs {error.name}: install sglang==0.5.23, see docs/sglang.md",
                field="engine",
            ) from None
        return sglang.launch(model, settings)
    try:
        from multiverse_worker.engines.llamacpp import launch as llamacpp
    except ModuleNotFoundError as error:
        raise InvalidRequest(
            f"engine llamacpp needs {error.name}: pip install 'multiverse-worker[llamacpp]', "
            "or set MULTIVERSE_WORKER_ENGINE=sim to try things without weights",
            field="engine",
        ) from None
    return llamacpp.launch(model, settings)
