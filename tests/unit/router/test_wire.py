"""Contexts as the worker is told them."""

from __future__ import annotations

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.request import SamplingOptions
from multiverse_router.wire import context_message, sampling_message
from multiverse_shared.effects import StartBranch
from multiverse_shared.tree import Block, JoinRule, Text


def text(*ids: int, start: int | None = None) -> pb.Item:
    return pb.Item(text=pb.Text(ids=ids, start=start))


def test_a_closed_linear_block_is_told_as_plain_text() -> None:
    inner = Block(((Text((4,)),), (Text((5,)),)), JoinRule.LINEAR)
    block = Block(((Text((2,)), Text((3,), written=True)), (inner, Text((6,)))), JoinRule.LINEAR)
    told = context_message((Text((1,)), block, Text((7,), written=True)))
    assert told == pb.Context(items=[text(1, 2, 3, 4, 5, 6, 7)])


def test_blocks_keep_their_rule_offsets_and_starts() -> None:
    block = Block(((Text((2,)),), (Text((3,), start=9),)), JoinRule.RESERVE)
    told = context_message((Text((1,)), block))
    paths = [pb.Context(items=[text(2)]), pb.Context(items=[text(3, start=9)])]
    reserve = pb.Block(paths=paths, rule=pb.JOIN_RULE_RESERVE)
    assert told == pb.Context(items=[text(1), pb.Item(block=reserve)])
    (offset,) = context_message((Block(((Text((2,)),),), path_offset=-1, join_offset=1),)).items
    assert (offset.block.path_offset, offset.block.join_offset) == (-1, 1)


def test_every_sampling_option_is_told_and_the_prompt_is_not_penalised() -> None:
    options = SamplingOptions(
        seed=7,
        temperature=0.5,
        top_p=0.25,
        top_k=40,
        min_p=0.125,
        presence_penalty=-1.0,
        frequency_penalty=1.5,
        repetition_penalty=1.25,
        logit_bias=((3, 2.0), (9, -100.0)),
        logprobs=True,
        top_logprobs=5,
    )
    start = StartBranch("0.1#1", "0.1", None, (), 1, (), (), ((4, 5),), draws=6, joins=())
    assert sampling_message(options, start, 11) == pb.Sampling(
        seed=7,
        temperature=0.5,
        top_p=0.25,
        top_k=40,
        min_p=0.125,
        presence_penalty=-1.0,
        frequency_penalty=1.5,
        repetition_penalty=1.25,
        penalised_from=11,
        logit_bias={3: 2.0, 9: -100.0},
        stream="0.1",
        draws=6,
        banned=[pb.Ids(ids=[4, 5])],
        logprobs=True,
        top_logprobs=5,
    )
