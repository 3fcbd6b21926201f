"""How curation scales: samples in flight, teachers that misbehave, memory over many samples.

The teacher is a process that speaks the real wire protocol and answers after `--latency` seconds;
it is asked through the real client. One sample at a time is the baseline, measured on
`--alone` samples. Memory is that of a process that takes `--memory-samples` samples through
all stages with rules. One JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from multiverse_curator.engine import load, run
from multiverse_curator.store import State, Store, local_store
from multiverse_curator.teachers.choice import TeacherKind
from multiverse_curator.teachers.contract import Teacher
from multiverse_curator.teachers.rules import RulesTeacher
from tests.integration.curator.served import WIRES, calls, pipeline_of, teacher_at, teacher_server
from tests.integration.curator.test_runs import MIXED
from tests.unit.curator.generated import generated

LEAST_RATIO = 50
MOST_GROWTH = 1.15  # memory at the end over memory at a tenth


def converted_only(count: int, seed: int) -> list[Any]:
    """Samples that take all stages, so that each costs the same number of questions."""
    kinds = ("cases", "values", "terms")
    wanted = (source for source in generated(40 * count, seed) if source.id.startswith(kinds))
    return [source for source, _ in zip(wanted, range(count), strict=False)]


def timed(store: Store, teacher: Teacher, in_flight: int) -> float:
    async def go() -> None:
        try:
            await run(pipeline_of(store, teacher), store, in_flight, lambda state: None)
        finally:
            await teacher.close()

    begun = time.perf_counter()
    asyncio.run(go())
    return time.perf_counter() - begun


def scaling(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    kind = TeacherKind(options.wire)
    seconds = {}
    with teacher_server(latency=options.latency) as url:
        for in_flight, count in ((1, options.alone), (options.in_flight, options.samples)):
            store = local_store(f"sqlite:///{folder}/scaling-{in_flight}.db")
            load(store, converted_only(count, seed=in_flight))
            seconds[in_flight] = timed(store, teacher_at(kind, url, timeout_s=60), in_flight)
            done = store.counts()["samples"].get("converted", 0)
            store.close()
            assert done == count, f"{done} of {count} samples converted"
        told = calls(url)
    alone = seconds[1] / options.alone
    many = seconds[options.in_flight] / options.samples
    return {
        "wire": options.wire,
        "samples": options.samples,
        "in_flight": options.in_flight,
        "teacher_s": options.latency,
        "seconds": round(seconds[options.in_flight], 2),
        "seconds_per_sample_alone": round(alone, 3),
        "most_at_once": told["most_at_once"],
        "times_faster": round(alone / many, 2),
    }


def misbehaving(folder: Path, samples: int, kind: TeacherKind) -> dict[str, Any]:
    store = local_store(f"sqlite:///{folder}/{kind.value}.db")
    load(store, generated(samples, seed=11))
    with teacher_server(MIXED) as url:
        seconds = timed(store, teacher_at(kind, url, timeout_s=2.0), 32)
        told = calls(url)
    counts = store.counts()
    reasons = [store.sample(n).reason for n in store.ids(State.DEAD)]
    store.close()
    ended = sum(counts["samples"].values()) - counts["samples"].get("pending", 0)
    return {
        "samples": counts["samples"],
        "ended": ended,
        "dead_without_reason": sum(not reason for reason in reasons),
        "answered_twice": told["answered_twice"],
        "ledger_is_the_servers_count": sum(counts["calls"].values()) == told["asked"],
        "behaved": told["behaved"],
        "seconds": round(seconds, 2),
    }


def memory(folder: Path, samples: int) -> dict[str, Any]:
    """Resident MiB at a tenth, at a half and at the end."""
    store = local_store(f"sqlite:///{folder}/memory.db")
    load(store, generated(samples, seed=12))
    at, done, peak = {}, 0, 0.0

    def count(state: State) -> None:
        nonlocal done, peak
        done += 1
        if done in (samples // 10, samples // 2, samples):
            at[done] = round(_resident_mib(), 1)

    async def go() -> None:
        await run(pipeline_of(store, RulesTeacher()), store, 64, count)

    begun = time.perf_counter()
    asyncio.run(go())
    seconds = time.perf_counter() - begun
    store.close()
    values = list(at.values())
    return {
        "samples": samples,
        "resident_mib": at,
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "growth": round(values[-1] / values[0], 3),
        "seconds": round(seconds, 1),
    }


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--alone", type=int, default=4)
    parser.add_argument("--latency", type=float, default=2.0)
    parser.add_argument("--wire", choices=[kind.value for kind in WIRES], default="openai")
    parser.add_argument("--misbehaving", type=int, default=200)
    parser.add_argument("--memory-samples", type=int, default=20000)
    options = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result["memory"] = memory(folder, options.memory_samples)
        print(json.dumps(result), file=sys.stderr)
        result |= scaling(folder, options)
        for kind in WIRES:
            result[f"misbehaving_{kind.value}"] = misbehaving(folder, options.misbehaving, kind)
    faults = [result[f"misbehaving_{kind.value}"] for kind in WIRES]
    result["passed"] = (
        result["times_faster"] >= LEAST_RATIO
        and result["memory"]["growth"] <= MOST_GROWTH
        and all(
            told["ended"] == options.misbehaving
            and not told["dead_without_reason"]
            and not told["answered_twice"]
            and told["ledger_is_the_servers_count"]
            for told in faults
        )
    )
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
