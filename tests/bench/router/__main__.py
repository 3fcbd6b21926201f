"""What the router adds to a stream and what it costs, measured on the simulator.

For each number of streams: a worker whose steps are as long as the rate wants them, a router, and
(where it is installed) a Rust gateway in front of a facade of the same simulator. In each round
the same answers are asked for straight from the worker, through the router's two APIs, straight
from the facade and through the gateway. Figures are medians over the rounds. One JSON line last;
its top level is that of the largest number of streams.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from multiverse_cli.stack import free_port
from multiverse_worker.engines.sim.timing import StepTimes
from tests.bench.router import gateway
from tests.bench.router.load import Plan
from tests.bench.router.notes import NoteReader
from tests.bench.router.processes import running, says_ready
from tests.bench.router.report import Figures, medians
from tests.bench.router.rounds import Pair, Server, gateway_round, router_round

MACHINE = "qwen32b-fp16-4x3090"
PREFILL_TOKENS_PER_S = 1_000_000.0
MOST_P50_MS = 2.0
MOST_P99_MS = 10.0
Round = Callable[[Plan], Awaitable[dict[str, Figures]]]


def simulator(options: argparse.Namespace, streams: int) -> dict[str, str]:
    """Settings of a worker that decodes `streams` branches at the rate, each."""
    step_ms = StepTimes.of(MACHINE, PREFILL_TOKENS_PER_S).step_ms(streams)
    settings = {
        "model": options.model,
        "engine": "sim",
        "sim_machine": MACHINE,
        "sim_speed": step_ms * options.rate / 1000,
        "sim_prefill_tokens_per_s": PREFILL_TOKENS_PER_S,
        "sim_answers": "plain",
        "sim_text_tokens": 10_000,  # cut by max_tokens
        "sequences": 4096,
        "max_branches": 4096,
        "batch_tokens": 8192,
        "kv_cells": 2_000_000,
        "log_level": "WARNING",
    }
    return {f"MULTIVERSE_WORKER_{name.upper()}": str(value) for name, value in settings.items()}


@contextmanager
def far_end(
    options: argparse.Namespace, module: str, streams: int, folder: Path
) -> Iterator[tuple[Server, NoteReader]]:
    """A simulator that keeps notes: `worker` or `facade`."""
    port, book = free_port(), folder / f"{module}-{streams}.notes"
    settings = simulator(options, streams) | {"MULTIVERSE_WORKER_PORT": str(port)}
    command = [sys.executable, "-m", f"tests.bench.router.{module}", str(book)]
    command += [str(port)] if module == "facade" else []
    with running(command, settings, options.load_core, port) as child:
        yield Server(child, port), NoteReader(book)


@contextmanager
def router_pair(options: argparse.Namespace, streams: int, folder: Path) -> Iterator[Pair]:
    with far_end(options, "worker", streams, folder) as (far, notes):
        port = free_port()
        settings = {
            "PORT": str(port),
            "WORKERS": f"127.0.0.1:{far.port}",
            "MAX_REQUESTS": str(2 * streams),
            "LOG_LEVEL": "WARNING",
        }
        named = {f"MULTIVERSE_ROUTER_{name}": value for name, value in settings.items()}
        command = [sys.executable, "-m", "multiverse_router"]
        core = options.router_core
        with running(command, named, core, port, ready=says_ready) as child:
            yield Pair(far, notes, Server(child, port))


@contextmanager
def gateway_pair(options: argparse.Namespace, streams: int, folder: Path) -> Iterator[Pair]:
    with far_end(options, "facade", streams, folder) as (far, notes):
        port, core, log = free_port(), options.router_core, folder / "gateway.log"
        found = gateway.in_front_of(far.port, port, options.gateway, options.name, core, log)
        with found as child:
            yield Pair(far, notes, Server(child, port))


async def rounds(one: Round, plan: Plan, count: int) -> dict[str, Any]:
    """Medians over so many rounds, behind a short one that is not counted."""
    await one(Plan(plan.streams, 2, max(2, plan.tokens // 4), plan.rate))
    seen = [await one(plan) for _ in range(count)]
    return {name: medians([figures[name] for figures in seen]) for name in seen[0]}


def measure(options: argparse.Namespace, streams: int) -> dict[str, Any]:
    plan = Plan.of(streams, options.rate, options.seconds)
    name = options.name
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with router_pair(options, streams, folder) as pair:
            figures = asyncio.run(
                rounds(lambda plan: router_round(pair, plan, name), plan, options.rounds)
            )
        if gateway.version(options.gateway):
            with gateway_pair(options, streams, folder) as pair:
                figures |= asyncio.run(
                    rounds(lambda plan: gateway_round(pair, plan, name), plan, options.rounds)
                )
    return {"streams": streams, "answer_tokens": plan.tokens, "answers": plan.answers, **figures}


def summary(options: argparse.Namespace, by_streams: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of the largest load on top, all of them below."""
    most = max(by_streams, key=lambda figures: figures["streams"])
    native, chat = most["generate"], most["chat"]
    names = ("added_ttft_p50_ms", "added_ttft_p99_ms", "tokens_per_core_s", "rss_mb")
    named = [name + end for name in names for end in ("", "_spread")]
    return {
        "streams": most["streams"],
        "rate": options.rate,
        "rounds": options.rounds,
        "cores": {"router": options.router_core, "load": options.load_core},
        "gateway": gateway.version(options.gateway),
        **{name: native[name] for name in named},
        **{f"chat_{name}": chat[name] for name in named},
        "passed": native["added_ttft_p50_ms"] <= MOST_P50_MS
        and native["added_ttft_p99_ms"] <= MOST_P99_MS,
        "by_streams": by_streams,
    }


def arguments() -> argparse.Namespace:
    cores = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 64, 300])
    parser.add_argument("--rate", type=float, default=10.0, help="tokens a second of a stream")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a load, about")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--router-core", type=int, default=cores[-1], help="also the gateway's")
    parser.add_argument("--load-core", type=int, default=cores[0], help="of everything else")
    parser.add_argument("--gateway", type=Path, default=Path("build/gateway"), help="its venv")
    options = parser.parse_args()
    options.name = options.model.resolve().name
    return options


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # children end with it
    os.sched_setaffinity(0, {options.load_core})
    by_streams = []
    for streams in options.streams:
        figures = measure(options, streams)
        print(json.dumps(figures), flush=True)
        by_streams.append(figures)
    print(json.dumps(summary(options, by_streams)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
