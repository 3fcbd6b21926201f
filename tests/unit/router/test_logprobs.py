"""Logprobs of an answer: each token's own, and flagged zeros for what the system wrote."""

from __future__ import annotations

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.api.openai.logprobs import choice_logprobs
from multiverse_router.events import TextEvent, event_json
from multiverse_router.logprobs import Logprobs, Probable, TokenLogprob
from multiverse_shared.dialect import Tag
from multiverse_shared.effects import Kind, Tokens
from multiverse_shared.limits import Limits
from tests.unit.router.hand_fed import path, plan, request, tag, text
from tests.unit.router.served import tokenizer
from tests.unit.router.test_coordinator import Run, fork, running


def value_of(token: int) -> float:
    """What the hand-fed worker says of a token."""
    return -float(token)


def entries(run: Run) -> list[TokenLogprob]:
    out: list[TokenLogprob] = []
    for event in run.told(TextEvent):
        assert isinstance(event, TextEvent)
        assert event.logprobs is not None
        assert [entry.id for entry in event.logprobs] == list(event.token_ids)
        assert all(entry.written == (event.kind == "written") for entry in event.logprobs)
        out += event.logprobs
    return out


async def test_every_token_has_its_own_and_written_ones_are_flagged_zeros() -> None:
    async with running(request(logprobs=True)) as run:
        first, second = await fork(run, "1:a", "2:b")
        assert first.sampling.logprobs
        run.link.decoded(second, text("late"))
        run.link.ended(first, path("A"), "first")
        run.link.ended(second, [tag(Tag.PATH_CLOSE)], "second")
        joined = await run.start(4)
        run.link.ended(joined, text("!"), "joined")
        await run.task
    told = entries(run)
    assert {entry.written for entry in told} == {True, False}
    for entry in told:
        assert entry.token == tokenizer().decode([entry.id])
        assert entry.logprob == (0.0 if entry.written else value_of(entry.id))
    decoded = [*plan("1:a", "2:b"), *text("late"), *path("A"), tag(Tag.PATH_CLOSE), *text("!")]
    assert sorted(entry.id for entry in told if not entry.written) == sorted(decoded)


async def test_tokens_behind_a_plan_that_was_closed_early_are_not_counted() -> None:
    """They came in the same frame; what the path says later has its own logprobs."""
    limits = Limits(max_total_tokens=1000, max_paths=1)
    async with running(request(limits, logprobs=True)) as run:
        root = await run.start(1)
        run.link.decoded(root, [*plan("1:a")[:-1], *text("dropped")])
        only = await run.start(2)
        run.link.ended(only, path("A"), "only")
        joined = await run.start(3)
        run.link.ended(joined, text("end"), "joined")
        await run.task
    assert [e.id for e in entries(run) if not e.written][-len(text("end")) :] == text("end")


async def test_without_being_asked_for_nothing_is_kept() -> None:
    async with running(request()) as run:
        root = await run.start(1)
        run.link.ended(root, text("a"), "root")
        await run.task
    [event] = run.told(TextEvent)
    assert isinstance(event, TextEvent)
    assert event.logprobs is None
    assert "logprobs" not in event_json(event, 0)


def test_the_most_probable_tokens_come_along() -> None:
    book = Logprobs(tokenizer())
    (a,), (b,) = text("a"), text("b")
    tops = [pb.TopLogprobs(ids=[b, a], logprobs=[-0.25, -0.5]), pb.TopLogprobs(ids=[b])]
    update = pb.Update(ids=[a, b], logprobs=[-0.5, -1.5], top_logprobs=tops[:1])
    book.read("0", update, 0)
    assert book.take(Tokens("0", (a,), Kind.TEXT)) == (
        TokenLogprob(a, "a", -0.5, (Probable(b, "b", -0.25), Probable(a, "a", -0.5))),
    )


def test_tokens_that_a_path_tells_later_find_their_own() -> None:
    book = Logprobs(tokenizer())
    (a,), (b,) = text("a"), text("b")
    update = pb.Update(ids=[a, b], logprobs=[-1, -2])
    book.read("0.1", update, 0)
    book.read("0.2", pb.Update(ids=[b], logprobs=[-9]), 0)
    book.read("0.1", update, 1)
    told = book.take(Tokens("0.1", (a, b), Kind.TEXT))
    assert [entry.logprob for entry in told] == [-1, -2]
    assert [entry.logprob for entry in book.take(Tokens("0.2", (b,), Kind.TAG))] == [-9]


def test_a_choice_has_them_as_openai_does() -> None:
    half = tokenizer().decode([text("\U0001f9d1")[0]])
    events = [
        TextEvent(
            "0", "text", "é", (1,), (TokenLogprob(1, "é", -0.5, (Probable(2, half, -1.0),)),)
        ),
        TextEvent("0", "written", "<", (3,), (TokenLogprob(3, "<", 0.0, written=True),)),
        TextEvent("0", "text", "held", ()),
    ]
    assert choice_logprobs(events) == {
        "content": [
            {
                "token": "é",
                "logprob": -0.5,
                "bytes": [0xC3, 0xA9],
                "top_logprobs": [{"token": half, "logprob": -1.0, "bytes": None}],
            },
            {
                "token": "<",
                "logprob": 0.0,
                "bytes": [60],
                "top_logprobs": [],
                "multiverse": {"written": True},
            },
        ],
        "refusal": None,
    }
