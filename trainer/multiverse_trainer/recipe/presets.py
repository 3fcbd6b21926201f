"""Defaults by size of model. 7b and 32b follow arXiv 2506.09991: 1e-5, 8 passes, 32k tokens."""

from __future__ import annotations

from typing import Any

_PAPER: dict[str, Any] = {
    "learning_rate": 1e-5,
    "max_tokens": 32768,
    "dtype": "bf16",
    "checkpointing": True,
    "fsdp": True,
    "answer_lead": "\n\n",
    "prompt_suffix": " Think step by step and in parallel before answering.",
}
_TINY: dict[str, Any] = {
    "optimiser": "muon",
    "learning_rate": 3e-3,
    "weight_decay": 0.05,
    "max_tokens": 512,
    "shares": [0.5],
    "order": "file",
    "warm_up": 0.02,
    "lowest_rate": 0.02,
    "beta2": 0.98,
    "rows": 4,
    "prompt_suffix": " in parallel",
    "answer_lead": "",
    "cpu": True,
    "save_steps": 500,
}
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": _TINY,
    # Goes on from a trained one: longer rows, as many tokens a step, a quarter of the rates.
    "tiny-long": {
        **_TINY,
        "learning_rate": 8e-4,
        "muon_rate": 5e-3,
        "max_tokens": 1024,
        "rows": 2,
    },
    "smollm2-135m": {
        "learning_rate": 2e-4,
        "max_tokens": 1024,
        "rows": 1,
        "shares": [0.0, 0.1, 0.5, 0.9, 1.0],
        "prompt_suffix": " Think in parallel.",
    },
    "7b": {**_PAPER, "accumulation": 1},
    "32b": {**_PAPER, "accumulation": 1},
}
