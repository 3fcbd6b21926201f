"""Requests that fork and join, decoded greedily, as programs for `Client.drive`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from multiverse_shared.errors import NotFound
from multiverse_shared.tree import Block, Context, Text, count
from multiverse_worker.contract import Ids, Sampling
from tests.unit.worker.client import Client, Outcome, text

HEADER, TAIL, JOIN = 5, 6, 7  # ids that the "system" writes


@dataclass
class Answer:
    """plan -> k paths -> conclusion; each path begins with the same token and its number."""

    client: Client
    request: str
    prompt: Text
    paths: int = 3
    plan: int = 6
    path: int = 8
    conclusion: int = 4
    vocab: int = 48
    sampling: Sampling = field(default_factory=Sampling)  # penalties count what is not the prompt

    @property
    def tokens(self) -> int:
        """Of the whole tree: the KV cells it needs."""
        written = self.plan + self.paths * (self.path + 3) + 1 + self.conclusion
        return count((self.prompt,)) + written

    async def run(self) -> list[Ids]:
        """Everything that was sampled, branch by branch."""
        plan = await self._ended(self.prompt, max_tokens=self.plan)
        before: Context = (self.prompt, text(*plan.ids))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._path(before, plan, n)) for n in range(self.paths)]
        paths = [task.result() for task in tasks]
        block = Block(tuple(inner for inner, _ in paths))
        leases = (plan.finish.lease, *(end.finish.lease for _, end in paths))
        ends = await self._ended(
            *before, block, text(JOIN), max_tokens=self.conclusion, consumes=leases
        )
        self.client.release(ends.finish.lease)
        return [plan.ids, *(end.ids for _, end in paths), ends.ids]

    async def _path(self, before: Context, plan: Outcome, number: int) -> tuple[Context, Outcome]:
        header = text(HEADER, 8 + number)
        fields: dict[str, Any] = {"max_tokens": self.path, "length_tail": (TAIL,)}
        fields |= {"block": plan.start.branch, "path": f".{number}"}
        end = await self._ended(header, base_key=plan.finish.key, **fields)
        if isinstance(end.finish.error, NotFound):
            end = await self._ended(*before, header, **fields)
        return (header, Text((*end.ids, TAIL))), end

    async def _ended(self, *context: Any, path: str = "", **fields: Any) -> Outcome:
        """Each path draws by its own name."""
        from_answer = count((self.prompt,))
        sampling = replace(self.sampling, stream=self.request + path, penalised_from=from_answer)
        outcome = await self.client.ended(
            *context, request=self.request, sampling=sampling, **fields
        )
        known = isinstance(outcome.finish.error, NotFound)
        assert known or outcome.finish.error is None, outcome.finish
        return outcome


def answers(client: Client, number: int, **shape: Any) -> list[Answer]:
    """`number` requests with prompts of their own."""
    vocab = shape.get("vocab", 48)
    prompts = [text(*((7 * n + 3 * i) % vocab for i in range(10 + n))) for n in range(number)]
    return [Answer(client, f"r{n}", prompt, **shape) for n, prompt in enumerate(prompts)]
