"""Held-out tasks through the served API: right answers, parallelism, tags, wall clock.

Each task is asked three ways on one server: `auto` (with the suffix), `off` (without) and
`serial` (the same trees, one path at a time: the baseline of the speed-up). One JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx
from tqdm import tqdm

from multiverse_cli.stack import Stack
from multiverse_trainer.tiny.tasks import make_task
from tests.bench.wellformed import wellformed

LEAST_EXACT = 0.95
LEAST_PARALLELISM = 2.0
LEAST_WELLFORMED = 0.99


@dataclass(frozen=True, slots=True)
class Question:
    """A held-out task: what is asked, and what must stand behind `#`."""

    family: str
    prompt: str
    answer: str


def generated(count: int, seed: int) -> list[Question]:
    """Tasks that training has not seen (another seed)."""
    rng = Random(seed)
    tasks = [make_task(rng) for _ in range(count)]
    return [Question(task.family.value, task.prompt, task.answer) for task in tasks]


def from_file(path: Path, count: int) -> list[Question]:
    """The first `count` rows of a JSONL file with `prompt`, `answer` and perhaps `family`."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [Question(row.get("family", "all"), row["prompt"], row["answer"]) for row in rows][
        :count
    ]


async def ask(client: httpx.AsyncClient, task: Question, parallel: str) -> dict[str, Any]:
    """One answer with the seconds it took, judged."""
    body = {
        "messages": [{"role": "user", "content": task.prompt}],
        "temperature": 0,
        "max_tokens": 1500,
        "multiverse": {"parallel": parallel},
    }
    begun = time.perf_counter()
    response = await client.post("/v1/chat/completions", json=body)
    seconds = time.perf_counter() - begun
    response.raise_for_status()
    answer = response.json()
    text = answer["choices"][0]["message"]["content"]
    done = answer["choices"][0]["finish_reason"] == "stop"
    return {
        "family": task.family,
        "exact": done and text.rpartition("#")[2] == task.answer,
        "wellformed": done and wellformed(text),
        "forked": "<Path>" in text,
        "tokens": answer["usage"]["completion_tokens"],
        "critical": answer["multiverse"]["critical_path_tokens"],
        "parallelism": answer["multiverse"]["parallelism"],
        "seconds": seconds,
        "text": text,
        "prompt": task.prompt,
    }


async def ask_all(
    url: str, tasks: list[Question], parallel: str, concurrency: int
) -> tuple[list[dict[str, Any]], float]:
    """All answers, and the wall clock of the whole run."""
    slots = asyncio.Semaphore(concurrency)
    bar = tqdm(total=len(tasks), desc=f"{parallel} x{concurrency}")
    begun = time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:

        async def one(task: Question) -> dict[str, Any]:
            async with slots:
                row = await ask(client, task, parallel)
            bar.update()
            return row

        async with asyncio.TaskGroup() as group:
            jobs = [group.create_task(one(task)) for task in tasks]
    bar.close()
    return [job.result() for job in jobs], time.perf_counter() - begun


def summary(rows: list[dict[str, Any]], wall_s: float) -> dict[str, Any]:
    tokens, critical = (sum(row[key] for row in rows) for key in ("tokens", "critical"))
    families: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        families[row["family"]].append(row["exact"])
    return {
        "exact": _share(rows, "exact"),
        "exact_by_family": {name: round(statistics.mean(v), 4) for name, v in families.items()},
        "wellformed": _share(rows, "wellformed"),
        "forked": _share(rows, "forked"),
        "parallelism_mean": round(statistics.mean(row["parallelism"] for row in rows), 3),
        "parallelism_of_sums": round(tokens / critical, 3),
        "tokens": tokens,
        "wall_s": round(wall_s, 2),
        "request_s_median": round(statistics.median(row["seconds"] for row in rows), 4),
    }


def _share(rows: list[dict[str, Any]], key: str) -> float:
    return round(sum(row[key] for row in rows) / len(rows), 4)


def measure(url: str, tasks: list[Question], concurrency: int, alone: int) -> dict[str, Any]:
    """Quality at `concurrency`; then the first `alone` tasks one at a time, auto and serial."""
    result: dict[str, Any] = {"tasks": len(tasks), "concurrency": concurrency}
    for parallel in ("auto", "off", "serial"):
        rows, wall = asyncio.run(ask_all(url, tasks, parallel, concurrency))
        result[parallel] = summary(rows, wall)
        for row in [row for row in rows if not row["exact"]][:3]:
            print(f"  missed ({parallel}): {row['prompt']}  {row['text']}", file=sys.stderr)
    one = {
        parallel: asyncio.run(ask_all(url, tasks[:alone], parallel, 1))
        for parallel in ("auto", "serial")
    }
    ratios = [
        serial["seconds"] / auto["seconds"]
        for auto, serial in zip(one["auto"][0], one["serial"][0], strict=True)
    ]
    result["speedup_alone_median"] = round(statistics.median(ratios), 3)
    result["speedup_alone_quartiles"] = [round(q, 3) for q in statistics.quantiles(ratios, n=4)]
    result["speedup_at_concurrency"] = round(
        result["serial"]["wall_s"] / result["auto"]["wall_s"], 3
    )
    result["passed"] = (
        min(result["auto"]["exact"], result["off"]["exact"]) >= LEAST_EXACT
        and result["auto"]["parallelism_mean"] >= LEAST_PARALLELISM
        and result["auto"]["wellformed"] >= LEAST_WELLFORMED
    )
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--url", help="a running router; one is started if left out")
    parser.add_argument("--data", type=Path, help="JSONL with prompt and answer; else generated")
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--alone", type=int, default=100, help="tasks timed one at a time")
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--seed", type=int, default=20261129, help="of the held-out tasks")
    options = parser.parse_args()
    if options.data:
        tasks = from_file(options.data, options.tasks)
    else:
        tasks = generated(options.tasks, options.seed)
    alone = min(options.alone, len(tasks))
    if options.url:
        result = measure(options.url, tasks, options.concurrency, alone)
    else:
        with Stack(options.model) as stack:
            result = measure(stack.url, tasks, options.concurrency, alone)
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
