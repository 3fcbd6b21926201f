"""What is sent to a worker so that a branch goes on as if it had always been there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.resume import Resumed, resumed, trimmed
from multiverse_shared.effects import StartBranch, Stop
from multiverse_shared.tree import Text, linearise

STOPS = (Stop((1,)), Stop((2, 3, 4), (9,)))
BANNED = ((5, 6),)


def start(max_tokens: int = 50, draws: int = 7) -> StartBranch:
    return StartBranch(
        branch="b",
        path="0.1",
        block="a",
        context=(Text((10, 11)),),
        max_tokens=max_tokens,
        stops=STOPS,
        length_tail=(8,),
        banned=BANNED,
        draws=draws,
        joins=(),
    )


def test_nothing_said_changes_nothing() -> None:
    assert resumed(start(), []) == Resumed(start())


@given(st.lists(st.integers(20, 99), max_size=49))
def test_what_was_said_becomes_context_but_for_what_may_begin_a_stop(taken: list[int]) -> None:
    rest = resumed(start(), taken)
    assert isinstance(rest, Resumed)
    longest = max(len(stop.ids) for stop in STOPS)
    assert len(rest.script) == min(len(taken), longest - 1)
    assert (*linearise(rest.start.context), *rest.script) == (10, 11, *taken)
    known = len(taken) - len(rest.script)
    assert rest.start.draws == 7 + known
    assert rest.start.max_tokens == 50 - known
    assert (rest.start.stops, rest.start.banned) == (STOPS, BANNED)


@pytest.mark.parametrize(("taken", "stop"), [([20, 1], 0), ([20, 2, 3, 4], 1)])
def test_a_stop_that_was_said_is_the_end(taken: list[int], stop: int) -> None:
    rest = resumed(start(), taken)
    assert rest == pb.Finish(reason=pb.FINISH_REASON_STOP, stop=stop)


def test_used_up_tokens_are_the_end() -> None:
    rest = resumed(start(max_tokens=3), [20, 21, 22])
    assert rest == pb.Finish(reason=pb.FINISH_REASON_LENGTH)


def test_half_a_stop_is_said_again_so_that_the_engine_knows_it() -> None:
    rest = resumed(start(), [20, 21, 2, 3])
    assert isinstance(rest, Resumed)
    assert rest.script == (2, 3)


def test_an_update_loses_what_was_said_before() -> None:
    tops = [pb.TopLogprobs(ids=[n]) for n in (1, 2, 3)]
    finish = pb.Finish(reason=pb.FINISH_REASON_STOP, lease="l")
    update = pb.Update(branch=4, ids=[1, 2, 3], logprobs=[-1, -2, -3], top_logprobs=tops)
    update.finish.CopyFrom(finish)
    rest = trimmed(update, 2)
    assert (list(rest.ids), list(rest.logprobs), list(rest.top_logprobs)) == ([3], [-3], tops[2:])
    assert rest.finish == finish
    assert not trimmed(update, 0, finish=False).HasField("finish")
