"""Stop strings in an answer: they end it in the root's own text, and nowhere else."""

from __future__ import annotations

import pytest

from multiverse_router.events import FinishEvent, TextEvent, UsageEvent
from multiverse_shared.dialect import Tag
from tests.unit.router.hand_fed import path, plan, request, tag, text
from tests.unit.router.test_coordinator import Run, fork, running


def usage_of(run: Run) -> UsageEvent:
    [event] = run.told(UsageEvent)
    assert isinstance(event, UsageEvent)
    return event


async def test_a_stop_string_that_spans_tokens_ends_the_answer_before_it() -> None:
    async with running(request(stop=("cd",))) as run:
        root = await run.start(1)
        for piece in ("ab", "c", "d"):
            run.link.decoded(root, text(piece))
        await run.task
    assert run.text == "ab"
    assert run.events[-1] == FinishEvent("stop", stop="cd")
    assert run.link.aborted == {root.branch}
    told = [i for event in run.told(TextEvent) for i in event.token_ids]  # type: ignore[union-attr]
    assert told == text("ab") + text("c") + text("d")
    assert usage_of(run).completion_tokens == len(told)


async def test_what_was_decoded_behind_it_in_the_same_frame_does_not_count() -> None:
    async with running(request(stop=("b",))) as run:
        root = await run.start(1)
        run.link.ended(root, [*text("abc"), *plan("1:a")], "lease")
        await run.task
    assert run.text == "a"
    assert usage_of(run).completion_tokens == len(text("ab"))
    assert len(run.link.starts) == 1
    assert run.link.released == {"lease"}


async def test_a_path_may_say_it() -> None:
    async with running(request(stop=("stop",))) as run:
        first, second = await fork(run, "1:a", "2:b")
        run.link.ended(first, path("a stop"), "first")
        run.link.ended(second, path("stop"), "second")
        joined = await run.start(4)
        run.link.decoded(joined, text("end: st"))
        run.link.decoded(joined, text("op here"))
        await run.task
    assert run.text.endswith("<Path>1:a stop</Path><Path>2:stop</Path><Conclusion>end: ")


async def test_an_outline_of_the_root_is_text_of_the_root() -> None:
    async with running(request(stop=("2:",))) as run:
        root = await run.start(1)
        run.link.ended(root, plan("1:a", "2:b"), "root")
        await run.task
    assert run.text == "<Parallel><Goal><Outline>1:a</Outline><Outline>"


@pytest.mark.parametrize("stop", ["ab", "<Parallel>", "a<", "</Goal>"])
async def test_tags_are_no_text_and_part_what_stands_around_them(stop: str) -> None:
    async with running(request(stop=(stop,))) as run:
        root = await run.start(1)
        run.link.decoded(root, text("a"))
        run.link.decoded(root, [tag(Tag.BLOCK_OPEN), tag(Tag.PLAN_OPEN), *text("b")])
        run.link.ended(root, [tag(Tag.PLAN_CLOSE)], "root")
        joined = await run.start(2)
        run.link.ended(joined, text("b"), "joined")
        await run.task
    assert run.text == "a<Parallel><Goal>b</Goal><Conclusion>b"


async def test_what_was_held_back_is_said_when_the_answer_ends() -> None:
    async with running(request(stop=("abc",))) as run:
        root = await run.start(1)
        run.link.decoded(root, text("xab"))
        run.link.ended(root, [], "root")
        await run.task
    assert run.text == "xab"
    assert run.events[-1] == FinishEvent("length")


async def test_what_was_held_back_and_half_a_character_keep_their_order() -> None:
    async with running(request(stop=("ab",))) as run:
        root = await run.start(1)
        run.link.decoded(root, [*text("xa"), text("\U0001f9d1")[0]])
        run.link.ended(root, plan("1:a"), "root")
        await run.start(2)
    assert run.text.startswith("xa\ufffd<Parallel>")
