"""How a branch goes on elsewhere: from the tokens it has sampled so far, as if nothing had been.

What was streamed becomes context, draws go on from their index, and the tokens that may be the
beginning of a stop or of a banned sequence are taken again in place of draws, so that the engine
knows them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_shared.effects import StartBranch
from multiverse_shared.tree import Text


@dataclass(frozen=True, slots=True)
class Resumed:
    """`start` to be decoded on from; its first `script` tokens are known already."""

    start: StartBranch
    script: tuple[int, ...] = ()


def resumed(start: StartBranch, taken: Sequence[int]) -> Resumed | pb.Finish:
    """`start` after it has sampled `taken`; the finish that the worker had no time to send."""
    if not taken:
        return Resumed(start)
    for number, stop in enumerate(start.stops):
        if tuple(taken[-len(stop.ids) :]) == stop.ids:
            return pb.Finish(reason=pb.FINISH_REASON_STOP, stop=number)
    if len(taken) >= start.max_tokens:
        return pb.Finish(reason=pb.FINISH_REASON_LENGTH)
    sequences = [*(stop.ids for stop in start.stops), *start.banned]
    again = min(len(taken), max((len(ids) - 1 for ids in sequences), default=0))
    known = len(taken) - again
    text = (Text(tuple(taken[:known])),) if known else ()
    moved = replace(
        start,
        context=(*start.context, *text),
        max_tokens=start.max_tokens - known,
        draws=start.draws + known,
    )
    return Resumed(moved, tuple(taken[known:]))


def trimmed(update: pb.Update, first: int, *, finish: bool = True) -> pb.Update:
    """`update` without the `first` of its ids and what is said of them, or without its finish."""
    return pb.Update(
        branch=update.branch,
        ids=update.ids[first:],
        logprobs=update.logprobs[first:],
        top_logprobs=update.top_logprobs[first:],
        finish=update.finish if finish and update.HasField("finish") else None,
    )
