"""Several llama.cpp workers that share a tier, and routers that place paths on them in two ways.

Router parts run in this process. Answers are compared by tokens, up to near-ties.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc
import httpx
from prometheus_client.parser import text_string_to_metric_families

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub
from multiverse_router.answers import Answers
from multiverse_router.api.bodies import GenerateBody, Message, answer_request
from multiverse_router.context_seal import ContextSeal
from multiverse_router.events import AnswerEvent, ErrorEvent, ForkEvent, TextEvent
from multiverse_router.fleet.fleet import Fleet
from multiverse_router.limits.admissions import Admissions
from multiverse_router.limits.local import LocalLimits
from multiverse_router.limits.places import Places
from multiverse_router.request import AnswerRequest
from multiverse_router.settings import RouterSettings
from tests.reliability.rig import EXACT, PREFIX, worker

NEAR_TIE = 1e-3  # between the logits of the two most probable tokens
AT_ONCE = 6
START_S = 600.0
_CONNECT_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Sampled:
    """One token of a path, and by how much the runner-up was less probable."""

    id: int
    gap: float


@dataclass
class Answer:
    """Tokens of each path, in the order of the first of each."""

    paths: dict[str, list[Sampled]] = field(default_factory=dict)
    forks: int = 0

    def add(self, event: AnswerEvent) -> None:
        assert not isinstance(event, ErrorEvent), event
        if isinstance(event, ForkEvent):
            self.forks += 1
        if isinstance(event, TextEvent):
            for entry in event.logprobs or ():
                gap = entry.top[0].logprob - entry.top[1].logprob if len(entry.top) > 1 else 1.0
                self.paths.setdefault(event.path, []).append(Sampled(entry.id, gap))

    def differs_from(self, other: Answer) -> bool:
        """Whether the tokens are others, and that not only behind a near-tie."""
        for path in sorted(self.paths.keys() | other.paths.keys(), key=_order):
            own, theirs = self.paths.get(path, []), other.paths.get(path, [])
            for one, two in itertools.zip_longest(own, theirs):
                if one is None or two is None:
                    return True
                if one.id != two.id:
                    return min(one.gap, two.gap) >= NEAR_TIE
        return False


def _order(path: str) -> tuple[int, tuple[int, ...]]:
    """Inner paths first: what stands behind them rests on them."""
    numbers = tuple(map(int, path.split(".")))
    return -len(numbers), numbers


@dataclass
class Router:
    """One router's own parts."""

    fleet: Fleet
    answers: Answers
    settings: RouterSettings
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def request(self, prompt: str, tenant: str) -> AnswerRequest:
        body = GenerateBody(prompt=prompt, temperature=0, max_tokens=1000)
        model = self.answers.model()
        messages = [Message(role="user", content=prompt)]
        name = f"gen-{tenant}-{next(self._numbers)}"
        made = answer_request(
            name, body, body, messages, body.max_tokens, model, self.settings, self.answers.seal
        )
        sampling = replace(made.sampling, logprobs=True, top_logprobs=2)
        return replace(made, tenant=tenant, sampling=sampling)

    async def ask(self, prompts: Sequence[str], tenant: str) -> list[Answer]:
        """All of them as that tenant, a few at a time."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(prompt: str) -> Answer:
            async with turns, self.answers.answer(self.request(prompt, tenant)) as events:
                answer = Answer()
                async for event in events:
                    answer.add(event)
                return answer

        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(one(prompt)) for prompt in prompts]
        return [task.result() for task in asked]


@dataclass
class Replicas:
    """Running workers, by address, and where each tells its metrics."""

    metrics_urls: dict[str, str]

    async def counted(self) -> Counter[str]:
        """All counters of the workers that are not zero, by name or name/label, summed."""
        total: Counter[str] = Counter()
        async with httpx.AsyncClient(trust_env=False) as client:
            for url in self.metrics_urls.values():
                for family in text_string_to_metric_families((await client.get(url)).text):
                    if family.type != "counter":
                        continue
                    for sample in family.samples:
                        name = sample.name.removeprefix(PREFIX).removesuffix("_total")
                        total["/".join([name, *sample.labels.values()])] += sample.value
        return +total

    @asynccontextmanager
    async def router(self, **settings: str) -> AsyncIterator[Router]:
        """Connected to all workers."""
        urls = self.metrics_urls
        made = RouterSettings(workers=",".join(urls), **settings)
        fleet = Fleet(made)
        run = asyncio.create_task(fleet.run())
        try:
            async with asyncio.timeout(START_S):
                while sum(w.available for w in fleet.workers) < len(urls):  # noqa: ASYNC110
                    await asyncio.sleep(_CONNECT_POLL_S)
            admissions = Admissions(Places(made.max_requests), LocalLimits())
            yield Router(fleet, Answers(fleet, admissions, ContextSeal.of("")), made)
        finally:
            run.cancel()
            await asyncio.wait([run])


@asynccontextmanager
async def replicas(model: Path, number: int, **settings: str) -> AsyncIterator[Replicas]:
    """Workers of one thread each that compute exactly, and are ready."""
    exact = EXACT | {"threads": "1", "sequences": "64"} | settings
    with ExitStack() as processes:
        begun = [processes.enter_context(worker(model, exact)) for _ in range(number)]
        urls = {f"127.0.0.1:{port}": f"http://127.0.0.1:{m}/metrics" for _, port, m in begun}
        async with AsyncExitStack() as channels:
            for address in urls:
                channel = grpc.aio.insecure_channel(address)
                stub = EngineServiceStub(await channels.enter_async_context(channel))
                ask = pb.GetModelInfoRequest()
                await stub.GetModelInfo(ask, wait_for_ready=True, timeout=START_S)
        yield Replicas(urls)
