"""Runs: bounded, resumable, with what failed told apart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from multiverse_trainer.evaluation.asking import Arm, ask_all, ask_in_turn
from multiverse_trainer.evaluation.endpoint import Reply, Unanswered, Way
from multiverse_trainer.evaluation.store import Key, Store
from tests.unit.trainer.evaluation.fakes import Answering, question, says

QUESTIONS = [question(f"q{number}") for number in range(20)]
SETTINGS = {"model": "m"}


async def test_every_question_is_asked_once_for_each_seed_and_arm(tmp_path: Path) -> None:
    endpoint, steps = says("#1"), 0

    def advance() -> None:
        nonlocal steps
        steps += 1

    with Store(tmp_path / "a", SETTINGS) as store:
        arms = [Arm(endpoint, Way("one")), Arm(endpoint, Way("two"))]
        await ask_all(arms, QUESTIONS, 3, store, 4, advance)
        assert len(store) == steps == 2 * 20 * 3
    assert endpoint.asked == {"one": 60, "two": 60}
    assert endpoint.most_at_once == 4


async def test_endpoints_are_asked_at_the_same_time(tmp_path: Path) -> None:
    both = asyncio.Barrier(2)

    class Meeting(Answering):
        async def ask(self, way: Way, prompt: str, seed: int) -> Reply:
            async with asyncio.timeout(10):
                await both.wait()
            return await super().ask(way, prompt, seed)

    one, other = (Meeting(lambda *_: Reply("#1", "stop", 2, 0.1)) for _ in range(2))
    arms = [Arm(one, Way("one")), Arm(other, Way("two"))]
    with Store(tmp_path / "a", SETTINGS) as store:
        await ask_all(arms, QUESTIONS, 1, store, 1)
        assert len(store) == 2 * len(QUESTIONS)
    assert one.most_at_once == other.most_at_once == 1


async def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with Store(path, SETTINGS) as store:
        await ask_all([Arm(says("#1"), Way("one"))], QUESTIONS[:7], 1, store, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])  # the last line was being written
    again = says("#2")
    with Store(path, SETTINGS) as store:
        assert len(store) == 6
        await ask_all([Arm(again, Way("one"))], QUESTIONS, 1, store, 2)
        texts = [reply.text for _, reply in store]
    assert again.asked["one"] == 14
    assert sorted(texts) == ["#1"] * 6 + ["#2"] * 14
    with Store(path, SETTINGS) as store:
        assert len(store) == 20


def test_answers_of_another_run_are_not_taken(tmp_path: Path) -> None:
    with Store(tmp_path / "a", SETTINGS) as store:
        store.add(Key("one", "q", 0), Reply("#1", "stop", 2, 0.1))
    with pytest.raises(ValueError, match=r'model "m", not "n".*--out'):
        Store(tmp_path / "a", {"model": "n"})
    with Store(tmp_path / "a", SETTINGS) as store:
        assert len(store) == 1


def test_a_reply_comes_back_as_it_was(tmp_path: Path) -> None:
    reply = Reply("é\n#1", "length", 5, 0.25, critical=3, irregular={"stray_tag": 2})
    with Store(tmp_path / "a", SETTINGS) as store:
        store.add(Key("one", "q", 1), reply)
    with Store(tmp_path / "a", SETTINGS) as store:
        assert dict(store) == {Key("one", "q", 1): reply}


async def test_what_failed_is_told_and_asked_again_by_the_next_run(tmp_path: Path) -> None:
    def say(way: Way, prompt: str, seed: int) -> Reply:
        if "q3" in prompt:
            raise Unanswered("status 500: broken")
        return Reply("#1", "stop", 2, 0.1)

    with Store(tmp_path / "a", SETTINGS) as store:
        outcome = await ask_all([Arm(Answering(say), Way("one"))], QUESTIONS, 1, store, 3)
        assert outcome.failed == {Key("one", "q3", 0): "status 500: broken"}
        assert len(store) == 19
        again = says("#1")
        assert not (await ask_all([Arm(again, Way("one"))], QUESTIONS, 1, store, 3)).failed
    assert again.asked["one"] == 1


async def test_a_cancelled_run_keeps_what_it_has(tmp_path: Path) -> None:
    reached = asyncio.Event()

    class Stuck(Answering):
        async def ask(self, way: Way, prompt: str, seed: int) -> Reply:
            if "q5" in prompt:
                reached.set()
                await asyncio.Event().wait()
            return await super().ask(way, prompt, seed)

    endpoint = Stuck(lambda *_: Reply("#1", "stop", 2, 0.1))
    with Store(tmp_path / "a", SETTINGS) as store:
        run = asyncio.create_task(ask_all([Arm(endpoint, Way("one"))], QUESTIONS, 1, store, 1))
        await asyncio.wait_for(reached.wait(), 10)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    with Store(tmp_path / "a", SETTINGS) as store:
        assert len(store) == 5


async def test_in_turn_one_question_at_a_time_and_no_arm_always_first(tmp_path: Path) -> None:
    order: list[str] = []

    def say(way: Way, prompt: str, seed: int) -> Reply:
        order.append(way.name)
        return Reply("#1", "stop", 2, 0.1)

    endpoint = Answering(say)
    with Store(tmp_path / "a", SETTINGS) as store:
        arms = [Arm(endpoint, Way("one")), Arm(endpoint, Way("two"))]
        await ask_in_turn(arms, QUESTIONS[:2], store)
    assert order == ["one", "two", "two", "one"]
    assert endpoint.most_at_once == 1
