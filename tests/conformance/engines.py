"""The engines that the suite can run, each in an exact and a served configuration.

The simulator has no logits: of it only what it says of its branches can be checked. Engines are
imported when they are asked for: they need different libraries.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.contract import Engine
from multiverse_worker.engines.sim.engine import SimEngine, SimOptions
from multiverse_worker.engines.sim.scripts import NoiseScripts
from multiverse_worker.engines.sim.timing import StepTimes
from multiverse_worker.tier.settings import TierSettings
from tests.conformance.oracle import VOCAB

KV_CELLS = 32768


@dataclass(frozen=True, slots=True)
class Configuration:
    """Types of weights and cells, and the way attention is computed."""

    weight_type: str
    kv_type: str
    flash_attention: bool


CONFIGURATIONS = {
    "exact": Configuration("f32", "f32", flash_attention=False),
    "served": Configuration("q8_0", "f16", flash_attention=True),
}


def llamacpp(directory: Path, scratch: Path, threads: int, configuration: str = "exact") -> Engine:
    """The model directory needs no tokenizer here: stand-ins are put where one is missing."""
    from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
    from multiverse_worker.engines.llamacpp.library import LibraryOptions
    from multiverse_worker.models.directory import ModelDirectory
    from multiverse_worker.models.export import export_gguf

    for name in ("tokenizer.json", "multiverse.json"):
        if not (directory / name).exists():
            (directory / name).write_text("{}")
    chosen = CONFIGURATIONS[configuration]
    gguf = scratch / "model.gguf"
    export_gguf(ModelDirectory(directory), gguf, chosen.weight_type)
    options = LibraryOptions(
        gguf,
        kv_cells=KV_CELLS,
        sequences=256,
        threads=threads,
        kv_type=chosen.kv_type,
        flash_attention=chosen.flash_attention,
    )
    return LlamaCppEngine(options, namespace="conformance")


def sglang(
    directory: Path,
    scratch: Path,
    threads: int,
    configuration: str = "exact",
    *,
    kv_cells: int = KV_CELLS,
    retract: bool = False,
    tier: TierSettings | None = None,
    **arguments: Any,
) -> Engine:
    """On a CPU, with SGLang's own accounting checked after every step.

    With `retract` it takes running requests back though there is room for them.
    """
    from multiverse_worker.engines.sglang.launch import (
        SglangOptions,
        cpu_arguments,
        open_engine,
    )

    if configuration != "exact":
        raise InvalidRequest("on a CPU SGLang runs in F32; use --config exact", field="config")
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ["SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY"] = "1"
    os.environ["SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE"] = "1"
    os.environ["SGLANG_TEST_RETRACT"] = str(int(retract))
    more = {**cpu_arguments(), **arguments}
    options = SglangOptions(directory, kv_cells, dtype="float32", running=48, more=more)
    return open_engine(options, "conformance", tier)


def sim() -> SimEngine:
    """Without waiting; as large as the other."""
    times = StepTimes.of("qwen32b-fp16-4x3090", prefill_tokens_per_s=2000)
    options = SimOptions(kv_cells=KV_CELLS, sequences=256)
    return SimEngine(options, NoiseScripts(VOCAB), times, namespace="conformance")


# With a model, which an oracle can be compared with.
ENGINES: dict[str, Callable[..., Engine]] = {"llamacpp": llamacpp, "sglang": sglang}
