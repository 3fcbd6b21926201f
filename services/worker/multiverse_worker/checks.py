"""What no engine could ever serve is refused at the start, with the field and the remedy."""

from __future__ import annotations

from multiverse_shared.errors import InvalidRequest, RequestTooLarge
from multiverse_shared.layout import next_position
from multiverse_shared.tree import Block, Context, Text, count, texts
from multiverse_worker.contract import Capability, EngineInfo, Ids, Start
from multiverse_worker.sampling_check import check_sampling


def check_start(start: Start, context: Context, info: EngineInfo) -> None:
    """`context` is the whole of it, in normal form. InvalidRequest or RequestTooLarge."""
    if not context:
        raise InvalidRequest("the context is empty; send a token", field="context")
    if start.max_tokens > 0 and not isinstance(context[-1], Text):
        raise InvalidRequest("nothing follows the block; send a join header", field="context")
    if any(not stop.keep and len(stop.ids) != 1 for stop in start.stops):
        raise InvalidRequest("a stop that is dropped must be one id", field="stops")
    if not all(stop.ids for stop in start.stops):
        raise InvalidRequest("a stop needs at least one id", field="stops")
    for ids in _all_ids(start, context):
        if ids and not (min(ids) >= 0 and max(ids) < info.vocab_size):
            raise InvalidRequest(f"token ids must be 0 to {info.vocab_size - 1}", field="context")
    check_sampling(start.sampling, info.vocab_size)
    if Capability.FREE_POSITIONS not in info.capabilities:
        if any(block.path_offset or block.join_offset for block in _blocks(context)):
            raise InvalidRequest(
                f"{info.engine} can't repeat positions; serve the dialect with offsets 0",
                field="context",
            )
        if any(text.start is not None for text in texts(context)):
            raise InvalidRequest(
                f"{info.engine} can't leave positions out; use a join rule without start positions",
                field="context",
            )
    _check_size(start, context, info)


def _check_size(start: Start, context: Context, info: EngineInfo) -> None:
    tail = longest_tail(start)
    longest = next_position(context) + start.max_tokens + tail
    cells = count(context) + start.max_tokens + tail
    if longest > info.context_length:
        raise RequestTooLarge(
            f"the branch may reach position {longest}, the model's context is "
            f"{info.context_length}; lower max_tokens or shorten the prompt",
            field="max_tokens",
        )
    if cells > info.kv_cells:
        raise RequestTooLarge(
            f"the branch may need {cells} KV cells of {info.kv_cells}; "
            "lower max_tokens or raise kv_cells",
            field="max_tokens",
        )


def longest_tail(start: Start) -> int:
    """The most that may be appended when the branch ends."""
    return max([len(start.length_tail), *(len(stop.tail) for stop in start.stops)])


def _blocks(context: Context) -> list[Block]:
    """All blocks, nested ones included."""
    blocks = [item for item in context if isinstance(item, Block)]
    return blocks + [inner for block in blocks for path in block.paths for inner in _blocks(path)]


def _all_ids(start: Start, context: Context) -> list[Ids]:
    """Every id sequence of a command."""
    stops = [ids for stop in start.stops for ids in (stop.ids, stop.tail)]
    own = [start.length_tail, start.script, *start.sampling.banned]
    return [text.ids for text in texts(context)] + stops + own
