"""Between protobuf messages and the values of the engine contract."""

from __future__ import annotations

from collections.abc import Iterable

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_shared.effects import Stop
from multiverse_shared.errors import InvalidRequest, status_of
from multiverse_shared.tree import Block, Context, Item, JoinRule, Text
from multiverse_worker.contract import (
    BranchId,
    Finish,
    FinishReason,
    Load,
    Sampling,
    Start,
    Update,
)

MOST_SALT = 64  # bytes
_RULES = {pb.JOIN_RULE_STITCH: JoinRule.STITCH, pb.JOIN_RULE_RESERVE: JoinRule.RESERVE}
_REASONS = {
    FinishReason.STOP: pb.FINISH_REASON_STOP,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.ABORTED: pb.FINISH_REASON_ABORTED,
    FinishReason.FAILED: pb.FINISH_REASON_FAILED,
}


def start_of(message: pb.Start, stream: int) -> Start:
    """InvalidRequest names what the message lacks."""
    if len(message.salt) > MOST_SALT:
        raise InvalidRequest(f"a salt has at most {MOST_SALT} bytes", field="salt")
    sampling = message.sampling
    return Start(
        branch=BranchId(stream, message.branch),
        request=message.request,
        block=BranchId(stream, message.block) if message.HasField("block") else None,
        base_key=message.base_key,
        context=context_of(message.context),
        sampling=Sampling(
            temperature=sampling.temperature,
            top_p=sampling.top_p or 1.0,
            top_k=sampling.top_k,
            seed=sampling.seed,
            stream=sampling.stream,
            draws=sampling.draws,
            banned=tuple(tuple(sequence.ids) for sequence in sampling.banned),
            logprobs=sampling.logprobs,
            top_logprobs=sampling.top_logprobs,
            min_p=sampling.min_p,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            repetition_penalty=sampling.repetition_penalty or 1.0,
            penalised_from=sampling.penalised_from,
            logit_bias=tuple(sorted(sampling.logit_bias.items())),
        ),
        stops=tuple(Stop(tuple(s.ids), tuple(s.tail), not s.drop) for s in message.stops),
        max_tokens=message.max_tokens,
        length_tail=tuple(message.length_tail),
        consumes=tuple(message.consumes),
        script=tuple(message.script),
        salt=message.salt,
        ship_from=message.ship_from if message.HasField("ship_from") else None,
    )


def context_of(message: pb.Context) -> Context:
    """The context tree of a message; all its blocks are closed."""
    return tuple(_item(item) for item in message.items)


def _item(message: pb.Item) -> Item:
    if message.HasField("text"):
        start = message.text.start if message.text.HasField("start") else None
        return Text(tuple(message.text.ids), start=start)
    if not message.HasField("block"):
        raise InvalidRequest("an item must be a text or a block", field="context")
    block = message.block
    if block.rule not in _RULES:
        raise InvalidRequest(f"unknown join rule {block.rule}", field="context")
    paths = tuple(context_of(path) for path in block.paths)
    return Block(paths, _RULES[block.rule], True, block.path_offset, block.join_offset)


def frame_of(updates: Iterable[Update]) -> pb.RunResponse:
    """One frame of a stream."""
    return pb.RunResponse(updates=[_update(update) for update in updates])


def _update(update: Update) -> pb.Update:
    finish = _finish(update.finish) if update.finish else None
    top = [pb.TopLogprobs(ids=top.ids, logprobs=top.logprobs) for top in update.top_logprobs]
    return pb.Update(
        branch=update.branch.number,
        ids=update.ids,
        logprobs=update.logprobs,
        finish=finish,
        top_logprobs=top,
    )


def _finish(finish: Finish) -> pb.Finish:
    return pb.Finish(
        reason=_REASONS[finish.reason],
        stop=finish.stop,
        appended=finish.appended,
        lease=finish.lease,
        key=finish.key,
        reused_tokens=finish.reused_tokens,
        context_tokens=finish.context_tokens,
        fetched_tokens=finish.fetched_tokens,
        code=status_of(type(finish.error)).grpc if finish.error else "",
        message=finish.error.message if finish.error else "",
    )


def load_of(
    load: Load, sequence: int, draining: bool, cache: pb.CacheChanges | None = None
) -> pb.WatchLoadResponse:
    return pb.WatchLoadResponse(
        sequence=sequence,
        running=load.running,
        waiting=load.waiting,
        leases=load.leases,
        kv_cells_free=load.kv_cells_free,
        kv_cells=load.kv_cells,
        kv_cells_idle=load.kv_cells_idle,
        kv_cells_leased=load.kv_cells_leased,
        step_ms=dict(load.step_ms),
        draining=draining,
        cache=cache,
    )
