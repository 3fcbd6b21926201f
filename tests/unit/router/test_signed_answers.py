"""The finish event carries the answer's tree, signed, when the request asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from multiverse_router import context_seal
from multiverse_router.answers import Answers
from multiverse_router.events import AnswerEvent, FinishEvent
from multiverse_shared.dialect import Tag
from multiverse_shared.limits import Limits
from multiverse_shared.tree import Block, Context, Text, linearise
from tests.unit.router.app import SEAL, application, post
from tests.unit.router.asgi import until
from tests.unit.router.hand_fed import HandFedLink, admissions, path, plan, request, tag, text
from tests.unit.router.served import EOS, served_model, tokenizer, told

CHAT, GENERATE = "/v1/chat/completions", "/v1/generate"
PROMPT: Context = (Text((5,)), Block(((Text((6,)),),)), Text((7,)))


@asynccontextmanager
async def answering(
    link: HandFedLink, deadline_s: float | None = None, *, return_context: bool = True
) -> AsyncIterator[list[AnswerEvent]]:
    """What is told of an answer; complete when the context is left."""
    wanted = replace(
        request(Limits(max_total_tokens=1000), deadline_s=deadline_s),
        prompt=PROMPT,
        return_context=return_context,
    )
    events: list[AnswerEvent] = []

    async def listen() -> None:
        async with Answers(link.fleet, admissions(8), SEAL).answer(wanted) as told:
            async for event in told:
                events.append(event)

    async with asyncio.TaskGroup() as group:
        group.create_task(listen())
        yield events


async def say(link: HandFedLink, ids: Sequence[int]) -> None:
    """Let the root say `ids` and end."""
    await until(lambda: link.starts)
    link.ended(link.starts[0], [*ids, tokenizer().token_id(EOS) or 0], "root")


async def test_it_is_the_tree_without_the_prompt() -> None:
    link = HandFedLink()
    async with answering(link) as events:
        await until(lambda: link.starts)
        link.ended(link.starts[0], plan("1:a"), "root")
        await until(lambda: len(link.starts) == 2)
        link.ended(link.starts[1], path("A"), "path")
        await until(lambda: len(link.starts) == 3)
        end = [tag(Tag.JOIN_CLOSE), tag(Tag.BLOCK_CLOSE), tokenizer().token_id(EOS) or 0]
        link.ended(link.starts[2], end, "join")
    finish = events[-1]
    assert isinstance(finish, FinishEvent)
    assert finish.context_omitted is None
    tree = SEAL.open(finish.context or "", served_model().layout, "f")
    assert told(tree) == (
        "<Parallel><Goal><Outline>1:a</Outline></Goal><Path>1:A</Path>"
        "<Conclusion></Conclusion></Parallel>"
    )
    assert [type(item) for item in tree] == [Text, Block, Text]


async def test_nothing_is_signed_for_who_does_not_ask() -> None:
    link = HandFedLink()
    async with answering(link, return_context=False) as events:
        await say(link, text("x"))
    assert events[-1] == FinishEvent("stop")


async def test_a_tree_that_is_too_large_is_left_out_and_said_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(context_seal, "MAX_SEALED_BYTES", 60)
    link = HandFedLink()
    async with answering(link) as events:
        await say(link, text("more than that"))
    assert events[-1] == FinishEvent("stop", context_omitted="too_large")


async def test_an_answer_whose_paths_were_cut_off_has_a_context_of_closed_blocks() -> None:
    link = HandFedLink()
    async with answering(link, deadline_s=0.3) as events:
        await until(lambda: link.starts)
        link.ended(link.starts[0], plan("1:a", "2:b"), "root")
        await until(lambda: len(link.starts) == 3)
    assert isinstance(events[-1], FinishEvent)
    assert events[-1].context
    (block,) = [
        i for i in SEAL.open(events[-1].context, served_model().layout, "f") if isinstance(i, Block)
    ]
    assert len(block.paths) == 2
    assert block.closed


async def test_usage_counts_the_whole_prompt_and_none_of_it_as_answer() -> None:
    link = HandFedLink()
    async with answering(link) as events:
        await say(link, text("xyz"))
    usage = next(event for event in events if event.type == "usage")
    assert (usage.prompt_tokens, usage.completion_tokens) == (3, len(text("xyz")))
    assert events[0].prompt_tokens == 3
    assert linearise(PROMPT) == (5, 6, 7)
    assert link.starts[0].sampling.penalised_from == 3


# -- bodies ---------------------------------------------------------------------------------------


def said(**multiverse: Any) -> dict[str, Any]:
    return {"role": "assistant", "multiverse": multiverse}


@pytest.mark.parametrize("api", [CHAT, GENERATE])
@pytest.mark.parametrize(
    ("message", "status", "param"),
    [
        (said(context="x"), 400, "messages.0.multiverse.context"),
        ({**said(context="x"), "content": "y"}, 400, "messages.0.multiverse.context"),
        (said(), 422, "messages.0.multiverse.context"),
        (said(context=1), 422, "messages.0.multiverse.context"),
        (said(context="x", more=1), 422, "messages.0.multiverse.more"),
        ({**said(context="x"), "role": "user"}, 422, "messages.0.multiverse"),
        ({**said(context="x"), "role": "system"}, 422, "messages.0.multiverse"),
        ({"role": "user", "multiverse": None}, 422, "messages.0.content"),
    ],
)
async def test_a_wrong_context_is_refused_by_its_place(
    api: str, message: dict[str, Any], status: int, param: str
) -> None:
    link = HandFedLink()
    client = await post(application(link), api, {"messages": [message]})
    if api == CHAT:
        status, param = 400, param.replace("messages.0", "messages[0]")
    assert (client.status, client.error["param"]) == (status, param)
    assert not link.starts
