"""Endpoints that answer by themselves, and questions for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from multiverse_trainer.evaluation.endpoint import Reply, Unanswered, Way
from multiverse_trainer.evaluation.question import AnswerForm, Question

FORKED = (
    "<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline></Goal>"
    "<Path>1:x=1</Path><Path>2:y=20</Path><Conclusion>so</Conclusion></Parallel>"
)


def question(name: str, answer: str = "1", form: AnswerForm = AnswerForm.HASH) -> Question:
    return Question(name, "all", f"What is {name}?", answer, form)


class Answering:
    """Says what `say` makes of a prompt and a seed; counts what is asked and how much at once."""

    def __init__(self, say: Callable[[Way, str, int], Reply]) -> None:
        self._say = say
        self.asked: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0

    async def ask(self, way: Way, prompt: str, seed: int) -> Reply:
        self.asked[way.name] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            return self._say(way, prompt, seed)
        finally:
            self.at_once -= 1


def says(text: str, seconds: float = 1.0, critical: int | None = None) -> Answering:
    """The same to everybody."""
    return Answering(lambda *_: Reply(text, "stop", len(text), seconds, critical))


def fails() -> Answering:
    def say(*_: object) -> Reply:
        raise Unanswered("status 503: no")

    return Answering(say)
