"""From settings to a running SGLang engine with the plugin in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiverse_shared.errors import InvalidModel, InvalidRequest
from multiverse_worker.engines.sglang.engine import Server, SglangEngine
from multiverse_worker.engines.sglang.messages import CACHE_NAME
from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.settings import WorkerSettings
from multiverse_worker.tier.settings import TierSettings

_DTYPES = {"f32": "float32", "f16": "float16"}
_OURS = frozenset({"radix_cache_backend", "page_size", "skip_tokenizer_init", "context_length"})


@dataclass(frozen=True, slots=True)
class SglangOptions:
    """What a worker sets; `more` are further SGLang server arguments by name."""

    model: Path
    kv_cells: int | None = None  # None: what the memory of the device holds
    row_tokens: int | None = None  # of one context with all paths; None: four model contexts
    dtype: str = "auto"
    tensor_parallel: int = 1
    running: int | None = None  # sequences computed at once
    chunk: int | None = None  # tokens of one prefill step
    more: dict[str, Any] = field(default_factory=dict)


def launch(model: ModelDirectory, settings: WorkerSettings) -> SglangEngine:
    """What is left out of the settings is SGLang's to choose: it knows the device."""
    given = settings.model_fields_set
    if "weight_type" in given and settings.weight_type not in _DTYPES:
        raise InvalidRequest(
            f"SGLang can't make {settings.weight_type} weights; serve a quantised checkpoint",
            field="weight_type",
        )
    if settings.weights:
        raise InvalidRequest("SGLang serves safetensors; leave weights out", field="weights")
    options = SglangOptions(
        model.path,
        kv_cells=settings.kv_cells if "kv_cells" in given else None,
        dtype=_DTYPES[settings.weight_type] if "weight_type" in given else "auto",
        tensor_parallel=settings.tensor_parallel,
        running=settings.sequences if "sequences" in given else None,
        chunk=settings.batch_tokens if "batch_tokens" in given else None,
        more=settings.sglang_arguments,
    )
    tier = TierSettings(**{name: getattr(settings, name) for name in TierSettings.model_fields})
    return open_engine(options, f"{model.weights_digest}/{options.dtype}", tier)


def open_engine(
    options: SglangOptions, namespace: str, tier: TierSettings | None = None
) -> SglangEngine:
    """InvalidRequest says what this machine or these options lack."""
    return SglangEngine(lambda: _serve(options), namespace, tier)


def cpu_arguments() -> dict[str, Any]:
    """SGLang's reference kernels on a CPU, for tests."""
    return {
        "device": "cpu",
        "attention_backend": "torch_native",
        "sampling_backend": "pytorch",
        "disable_cuda_graph": True,
        "mem_fraction_static": 0.1,
        "sleep_on_idle": True,
    }


def _serve(options: SglangOptions) -> Server:
    try:
        import sglang
    except ImportError as error:
        raise InvalidRequest(
            "the SGLang engine needs sglang==0.5.23; see docs/sglang.md", field="engine"
        ) from error
    clash = sorted(_OURS & options.more.keys())
    if clash:
        raise InvalidRequest(f"{', '.join(clash)} is set by the worker", field="sglang")
    arguments: dict[str, Any] = {
        "model_path": str(options.model),
        "radix_cache_backend": CACHE_NAME,
        "page_size": 1,
        "skip_tokenizer_init": True,
        "schedule_policy": "fcfs",
        "context_length": _row_tokens(options),
        "dtype": options.dtype,
        "tp_size": options.tensor_parallel,
        "max_total_tokens": options.kv_cells,
        "max_running_requests": options.running,
        "chunked_prefill_size": options.chunk,
        "log_level": "warning",
        "skip_server_warmup": True,
        **options.more,
    }
    set_ = {name: value for name, value in arguments.items() if value is not None}
    # A row holds every path of a context, so it is longer than the positions that it reaches.
    variables = {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
    if set_.get("device") == "cpu":
        variables["SGLANG_USE_CPU_ENGINE"] = "1"
    with _environment(variables):
        engine = sglang.Engine(**set_)
    return _Server(engine)


@dataclass(slots=True)
class _Server:
    """SGLang's own `shutdown` kills every child of the calling process: also other engines, whose
    watchdogs then kill the process. This one ends what its engine has started, and no more."""

    engine: Any

    def shutdown(self) -> None:
        from sglang.srt.utils import kill_process_tree

        watchdog = self.engine.tokenizer_manager._subprocess_watchdog
        watchdog.stop()
        for process in watchdog._processes:
            kill_process_tree(process.pid)
            process.join()


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _row_tokens(options: SglangOptions) -> int:
    if options.row_tokens:
        return options.row_tokens
    wanted = 4 * _trained_context(options.model)
    return min(wanted, options.kv_cells + 1) if options.kv_cells else wanted


def _trained_context(model: Path) -> int:
    config = json.loads((model / "config.json").read_text("utf-8"))
    length = config.get("max_position_embeddings")
    if not isinstance(length, int):
        raise InvalidModel(
            f"{model}/config.json has no max_position_embeddings; set row_tokens", field="model"
        )
    return length
