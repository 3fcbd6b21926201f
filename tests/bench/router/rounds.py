"""The loads of a round, one after the other, and what each is compared with."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

from tests.bench.router import http
from tests.bench.router.direct import direct
from tests.bench.router.load import Connect, Plan, run
from tests.bench.router.notes import NoteReader
from tests.bench.router.probe import Probe
from tests.bench.router.processes import Child
from tests.bench.router.report import Figures, Seen, added, percentile


@dataclass(frozen=True, slots=True)
class Server:
    """Something that is loaded."""

    child: Child
    port: int


@dataclass(frozen=True, slots=True)
class Pair:
    """A far end, and what stands in front of it."""

    far: Server
    notes: NoteReader
    near: Server


def tree_prompt(plan: Plan) -> str:
    """Asks the simulator for three paths, about as many tokens in all as the plan's."""
    path = max(2, plan.tokens // 4)
    return f"sim:tree,depth=1,blocks=1,paths=3,text=3,outline=3,path={path},conclusion=6"


async def router_round(pair: Pair, plan: Plan, model: str) -> dict[str, Figures]:
    """Figures of the router, by API; `tree` is `generate` with forks, without a comparison."""
    port = pair.near.port
    async with direct(pair.far.port, plan) as connect:
        base = Seen(await run(plan, connect), pair.notes.take())
    native, cost = await _loaded(pair, plan, http.generate(port, plan.tokens))
    chat, chat_cost = await _loaded(pair, plan, http.chat(port, plan.tokens, model))
    trees = http.generate(port, 1024, tree_prompt(plan))
    fewer = replace(plan, repeats=max(1, plan.repeats // 3))  # they take longer
    _, tree_cost = await _loaded(pair, fewer, trees)
    return {
        "generate": added(native, base) | cost,
        "chat": added(chat, base) | chat_cost,
        "tree": tree_cost,
    }


async def gateway_round(pair: Pair, plan: Plan, model: str) -> dict[str, Figures]:
    """Figures of the gateway, and of the facade alone."""
    alone = Pair(pair.far, pair.notes, pair.far)
    base, facade = await _loaded(alone, plan, http.chat(pair.far.port, plan.tokens, model))
    through, cost = await _loaded(pair, plan, http.chat(pair.near.port, plan.tokens, model))
    return {"gateway": added(through, base) | cost, "facade": facade}


async def _loaded(pair: Pair, plan: Plan, connect: Connect) -> tuple[Seen, Figures]:
    """A load on what stands in front, and what it cost there."""
    near = pair.near
    idle_mb = near.child.rss_mb()
    probe = Probe(near.child, near.port)
    probing = asyncio.create_task(probe.run())
    cpu, own, begun = near.child.cpu_s(), time.process_time(), time.monotonic()
    try:
        answers = await run(plan, connect)
    finally:
        seconds = time.monotonic() - begun
        own = time.process_time() - own
        cpu = near.child.cpu_s() - cpu
        probing.cancel()
        await asyncio.wait([probing])
    tokens = sum(answer.tokens for answer in answers)
    return Seen(answers, pair.notes.take()), {
        "tokens": tokens,
        "tokens_per_s": tokens / seconds,
        "tokens_per_core_s": tokens / cpu,
        "cpu_us_per_token": cpu / tokens * 1e6,
        "cpu_share": cpu / seconds,
        "generator_cpu_share": own / seconds,
        "rss_mb": probe.rss_mb,
        "rss_kb_per_stream": max(0.0, probe.rss_mb - idle_mb) * 1024 / plan.streams,
        "loop_lag_p50_ms": percentile(probe.lags_ms, 50),
        "loop_lag_p99_ms": percentile(probe.lags_ms, 99),
    }
