"""Between the interpreter's effects, context trees and protobuf messages."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.request import SamplingOptions
from multiverse_shared.effects import StartBranch
from multiverse_shared.tree import Block, Context, Item, JoinRule, Text, normalise

_RULES = {JoinRule.STITCH: pb.JOIN_RULE_STITCH, JoinRule.RESERVE: pb.JOIN_RULE_RESERVE}
_RULES_BY_NUMBER = {number: rule for rule, number in _RULES.items()}


def context_message(context: Context) -> pb.Context:
    """A context tree in its normal form; all its blocks must be closed."""
    return _message(normalise(context))


def _message(context: Context) -> pb.Context:
    items = []
    for item in context:
        if isinstance(item, Text):
            items.append(pb.Item(text=pb.Text(ids=item.ids, start=item.start)))
            continue
        assert item.closed, "an open block has no context behind it"
        block = pb.Block(
            paths=[_message(path) for path in item.paths],
            rule=_RULES[item.rule],
            path_offset=item.path_offset,
            join_offset=item.join_offset,
        )
        items.append(pb.Item(block=block))
    return pb.Context(items=items)


def sampling_message(
    options: SamplingOptions, start: StartBranch, prompt_tokens: int
) -> pb.Sampling:
    """How `start` draws; penalties count what stands behind the prompt."""
    return pb.Sampling(
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        min_p=options.min_p,
        presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty,
        repetition_penalty=options.repetition_penalty,
        penalised_from=prompt_tokens,
        logit_bias=dict(options.logit_bias),
        seed=options.seed,
        stream=start.path,
        draws=start.draws,
        banned=[pb.Ids(ids=ids) for ids in start.banned],
        logprobs=options.logprobs,
        top_logprobs=options.top_logprobs,
    )


def context_of(message: pb.Context) -> Context:
    """The context tree of a message. ValueError when it holds what no message of ours does."""
    return tuple(_item(item) for item in message.items)


def _item(message: pb.Item) -> Item:
    if message.HasField("text"):
        start = message.text.start if message.text.HasField("start") else None
        return Text(tuple(message.text.ids), start=start)
    block = message.block
    if block.rule not in _RULES_BY_NUMBER:
        raise ValueError(f"unknown join rule {block.rule}")
    paths = tuple(context_of(path) for path in block.paths)
    rule = _RULES_BY_NUMBER[block.rule]
    return Block(paths, rule, True, block.path_offset, block.join_offset)


def salt_of(tenant: str) -> bytes:
    """Keeps what workers cache for a tenant apart; the same on every router, empty for nobody."""
    return blake2b(tenant.encode(), digest_size=16, person=b"tenant").digest() if tenant else b""


def start_message(
    start: StartBranch,
    *,
    branch: int,
    request: str,
    block: int | None,
    base_key: bytes,
    base_items: int,
    sampling: pb.Sampling,
    consumes: list[str],
    script: Sequence[int] = (),
    traceparent: str = "",
    salt: bytes = b"",
    ship_from: int | None = None,
) -> pb.Start:
    """The command that starts `start`, whose first `base_items` items `base_key` stands for.

    The ids of `script` are taken in place of the first draws.
    """
    return pb.Start(
        branch=branch,
        request=request,
        block=block,
        base_key=base_key,
        context=context_message(start.context[base_items:]),
        sampling=sampling,
        stops=[pb.Stop(ids=s.ids, tail=s.tail, drop=not s.keep) for s in start.stops],
        max_tokens=start.max_tokens,
        length_tail=start.length_tail,
        consumes=consumes,
        script=script,
        traceparent=traceparent,
        salt=salt,
        ship_from=ship_from,
    )
