"""Entry point of `sglang.srt.plugins`: called by SGLang in each of its processes.

Without the worker's channel in the environment it changes nothing, so other SGLang servers on
the machine are as they were.
"""

from __future__ import annotations

import os

from multiverse_worker.engines.sglang.messages import CACHE_NAME, CHANNEL_VARIABLE


def register() -> None:
    if CHANNEL_VARIABLE not in os.environ:
        return
    from sglang.srt.mem_cache.registry import register_radix_cache_backend

    from multiverse_worker.engines.sglang.cache import build
    from multiverse_worker.engines.sglang.hooks import register_all

    register_radix_cache_backend(CACHE_NAME, build)
    register_all()
