"""Messages and values: what goes in comes out, and what is malformed is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_shared.effects import Stop
from multiverse_shared.errors import (
    CapacityExceeded,
    InvalidModel,
    InvalidRequest,
    MultiverseError,
    NotFound,
    RequestTooLarge,
    WorkerUnavailable,
)
from multiverse_shared.tree import Block, Context, Item, Text
from multiverse_worker.contract import (
    BranchId,
    Finish,
    FinishReason,
    Load,
    Sampling,
    Start,
    TopLogprobs,
    Update,
)
from multiverse_worker.wire import context_of, frame_of, load_of, start_of
from tests.unit.worker.properties import examples


def message_of(context: Context) -> pb.Context:
    """A context as a router sends it."""
    items = []
    for item in context:
        if isinstance(item, Text):
            items.append(pb.Item(text=pb.Text(ids=item.ids)))
        else:
            block = pb.Block(
                paths=[message_of(path) for path in item.paths],
                rule=pb.JOIN_RULE_STITCH,
                path_offset=item.path_offset,
                join_offset=item.join_offset,
            )
            items.append(pb.Item(block=block))
    return pb.Context(items=items)


IDS = st.integers(0, 2**32 - 1)
TEXTS: st.SearchStrategy[Item] = st.lists(IDS, max_size=3).map(lambda ids: Text(tuple(ids)))
OFFSETS = st.integers(-5, 5)


def blocks(inner: st.SearchStrategy[Item]) -> st.SearchStrategy[Item]:
    paths = st.lists(st.lists(inner, max_size=3).map(tuple), max_size=3).map(tuple)
    return st.builds(Block, paths, path_offset=OFFSETS, join_offset=OFFSETS)


CONTEXTS = st.lists(st.recursive(TEXTS, blocks, max_leaves=8), max_size=4).map(tuple)


@examples(50)
@given(CONTEXTS)
def test_any_context_survives_the_wire(context: Context) -> None:
    data = message_of(context).SerializeToString()
    assert context_of(pb.Context.FromString(data)) == context


def test_every_field_of_a_start_arrives() -> None:
    message = pb.Start(
        branch=7,
        request="r",
        block=3,
        base_key=b"key",
        context=message_of((Text((1, 2)),)),
        sampling=pb.Sampling(
            temperature=0.5,
            top_p=0.25,
            top_k=40,
            seed=2**64 - 1,
            stream="0.1",
            draws=9,
            banned=[pb.Ids(ids=[4])],
            logprobs=True,
            top_logprobs=5,
            min_p=0.125,
            presence_penalty=-0.5,
            frequency_penalty=1.5,
            repetition_penalty=1.25,
            penalised_from=17,
            logit_bias={9: -100, 3: 2.5},
        ),
        stops=[pb.Stop(ids=[5, 6], tail=[7]), pb.Stop(ids=[8], drop=True)],
        max_tokens=11,
        length_tail=[12, 13],
        consumes=["2-1", "2-2"],
        script=[14],
    )
    assert start_of(message, 2) == Start(
        branch=BranchId(2, 7),
        request="r",
        context=(Text((1, 2)),),
        max_tokens=11,
        sampling=Sampling(
            temperature=0.5,
            top_p=0.25,
            top_k=40,
            seed=2**64 - 1,
            stream="0.1",
            draws=9,
            banned=((4,),),
            logprobs=True,
            top_logprobs=5,
            min_p=0.125,
            presence_penalty=-0.5,
            frequency_penalty=1.5,
            repetition_penalty=1.25,
            penalised_from=17,
            logit_bias=((3, 2.5), (9, -100.0)),
        ),
        stops=(Stop((5, 6), (7,)), Stop((8,), keep=False)),
        length_tail=(12, 13),
        block=BranchId(2, 3),
        base_key=b"key",
        consumes=("2-1", "2-2"),
        script=(14,),
    )


def test_what_a_start_leaves_out_means_greedy_without_a_block() -> None:
    start = start_of(pb.Start(branch=1, context=message_of((Text((1,)),))), 1)
    assert start.sampling == Sampling()
    assert start.block is None
    assert start.base_key == b""


def test_branch_0_may_be_a_block() -> None:
    assert start_of(pb.Start(branch=1, block=0), 4).block == BranchId(4, 0)


@pytest.mark.parametrize(
    "item",
    [pb.Item(), pb.Item(block=pb.Block()), pb.Item(block=pb.Block(rule=99))],
    ids=["neither text nor block", "no rule", "unknown rule"],
)
def test_a_malformed_item_is_refused_with_its_field(item: pb.Item) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        start_of(pb.Start(context=pb.Context(items=[item])), 1)
    assert refusal.value.field == "context"


def test_a_frame_carries_tokens_and_the_end() -> None:
    finish = Finish(
        FinishReason.STOP,
        stop=1,
        appended=(7, 8),
        lease="2-5",
        key=b"k",
        reused_tokens=3,
        fetched_tokens=2,
        context_tokens=9,
    )
    top = (TopLogprobs((1, 7), (-0.5, -1.5)), TopLogprobs((7, 2), (-0.125, -0.25)))
    frame = frame_of([Update(BranchId(2, 4), (1, 2), (-0.5, -0.25), finish, top)])
    [update] = pb.RunResponse.FromString(frame.SerializeToString()).updates
    assert (update.branch, list(update.ids)) == (4, [1, 2])
    assert list(update.logprobs) == [-0.5, -0.25]
    assert [(list(t.ids), list(t.logprobs)) for t in update.top_logprobs] == [
        ([1, 7], [-0.5, -1.5]),
        ([7, 2], [-0.125, -0.25]),
    ]
    assert update.finish == pb.Finish(
        reason=pb.FINISH_REASON_STOP,
        stop=1,
        appended=[7, 8],
        lease="2-5",
        key=b"k",
        reused_tokens=3,
        fetched_tokens=2,
        context_tokens=9,
    )


def test_a_branch_that_goes_on_has_no_finish() -> None:
    [update] = frame_of([Update(BranchId(1, 4), (1,))]).updates
    assert not update.HasField("finish")


def test_every_reason_has_a_name_of_its_own() -> None:
    frames = [frame_of([Update(BranchId(1, 1), finish=Finish(r))]) for r in FinishReason]
    reasons = {frame.updates[0].finish.reason for frame in frames}
    assert len(reasons) == len(FinishReason)
    assert pb.FINISH_REASON_UNSPECIFIED not in reasons


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequest("bad"), "INVALID_ARGUMENT"),
        (InvalidModel("bad"), "INVALID_ARGUMENT"),
        (RequestTooLarge("bad"), "OUT_OF_RANGE"),
        (NotFound("bad"), "NOT_FOUND"),
        (CapacityExceeded("bad"), "RESOURCE_EXHAUSTED"),
        (WorkerUnavailable("bad"), "UNAVAILABLE"),
        (MultiverseError("bad"), "INTERNAL"),
    ],
)
def test_a_failure_carries_its_status_and_sentence(error: MultiverseError, code: str) -> None:
    finish = Finish(FinishReason.FAILED, error=error)
    [update] = frame_of([Update(BranchId(1, 1), finish=finish)]).updates
    assert (update.finish.code, update.finish.message) == (code, "bad")


def test_a_load_report_carries_every_number() -> None:
    load = Load(1, 2, 3, 4, 5, kv_cells_idle=7, kv_cells_leased=8, step_ms=((1, 0.5), (4, 2.0)))
    assert load_of(load, sequence=6, draining=True) == pb.WatchLoadResponse(
        running=1,
        waiting=2,
        leases=3,
        kv_cells_free=4,
        kv_cells=5,
        kv_cells_idle=7,
        kv_cells_leased=8,
        step_ms={1: 0.5, 4: 2.0},
        sequence=6,
        draining=True,
    )
