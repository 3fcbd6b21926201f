"""What this engine could never serve, beyond what no engine could (`multiverse_worker.checks`)."""

from __future__ import annotations

from multiverse_shared.errors import RequestTooLarge
from multiverse_shared.tree import Block, Context
from multiverse_worker.checks import check_start as check_for_any_engine
from multiverse_worker.contract import EngineInfo, Start


def check_start(start: Start, context: Context, info: EngineInfo, sequences: int) -> None:
    """InvalidRequest, or RequestTooLarge for what fits no empty engine of this size.

    `context` is the whole one, in normal form.
    """
    check_for_any_engine(start, context, info)
    needed = _depth(context) + 1
    if needed > sequences:
        raise RequestTooLarge(
            f"blocks so deep in one another need {needed} sequences of {sequences}; "
            "nest less or raise sequences",
            field="context",
        )


def _depth(context: Context) -> int:
    """How deep blocks stand in one another."""
    inner = [path for item in context if isinstance(item, Block) for path in item.paths]
    return max((1 + _depth(path) for path in inner), default=0)
