"""All stages on real reasoning and on generated reasoning, without a model: what comes out.

Real are the recorded outputs that have no blocks; their reasoning is what stands between the
tags of thinking. Prints yields, distances, parallelism, table 1 of arXiv 2506.09991 and a
histogram of independence (nats per token that a path gains by seeing its earlier siblings); plots
them; one JSON line last.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table

from multiverse_curator.checks.independence import LikelihoodIndependence
from multiverse_curator.engine import load, run
from multiverse_curator.export import Format, export
from multiverse_curator.sample import tree_from_json
from multiverse_curator.source import Source
from multiverse_curator.store import State, Store, local_store
from multiverse_curator.teachers.rules import RulesTeacher
from tests.integration.curator.served import pipeline_of
from tests.unit.curator.generated import generated

OUTPUTS = Path("tests/data/multiverse_outputs.jsonl.gz")
BINS = 12


def recorded(path: Path) -> Iterator[Source]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if "<Parallel>" not in row["output"]:
                reasoning = row["output"].removeprefix("<Think>\n")
                yield Source(id=f"recorded-{row['id']}", prompt=row["prompt"], reasoning=reasoning)


def curate(store: Store) -> float:
    async def go() -> None:
        total = sum(store.counts()["samples"].values())
        with Progress(console=Console(stderr=True)) as progress:
            bar = progress.add_task("samples", total=total)
            pipeline = pipeline_of(store, RulesTeacher())
            await run(pipeline, store, 8, lambda state: progress.advance(bar))

    begun = time.perf_counter()
    asyncio.run(go())
    return time.perf_counter() - begun


def yields(store: Store) -> dict[str, dict[str, int]]:
    """Samples by where they come from and how they ended."""
    found: dict[str, Counter[str]] = {}
    for state in State:
        for sample_id in store.ids(state):
            origin = store.sample(sample_id).source.key.split("-")[0]
            found.setdefault(origin, Counter())[state.value] += 1
    return {origin: dict(counts) for origin, counts in sorted(found.items())}


def measure(rows: list[dict[str, Any]], model: Path) -> list[float]:
    """Gains of all paths but the first of each block, where there is nothing to see."""
    independence = LikelihoodIndependence(model)
    gains: list[float] = []
    for row in track(rows, "independence", console=Console(stderr=True)):
        for path in independence.measure(row["prompt"], tree_from_json(row["tree"])):
            if path["path"] > 1:
                gains.append(path["gain"])
    return gains


def histogram(values: list[float], low: float, high: float) -> dict[str, int]:
    width = (high - low) / BINS or 1.0
    counts = Counter(min(BINS - 1, max(0, int((value - low) / width))) for value in values)
    return {f"{low + n * width:.2f}": counts[n] for n in range(BINS)}


def show(console: Console, title: str, counts: dict[str, Any]) -> None:
    table = Table(title=title, show_header=False)
    for name, value in counts.items():
        table.add_row(name, json.dumps(value) if isinstance(value, dict) else str(value))
    console.print(table)


def plot(path: Path, series: dict[str, list[float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(series), figsize=(4 * len(series), 3))
    for axis, (title, values) in zip(axes, series.items(), strict=True):
        axis.hist(values, bins=30)
        axis.set_title(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/curate-demo"))
    parser.add_argument("--generated", type=int, default=2000)
    parser.add_argument("--measured", type=int, default=200, help="samples for independence")
    parser.add_argument("--model", type=Path, default=Path("build/smollm2"))
    parser.add_argument("--seed", type=int, default=20261130)
    options = parser.parse_args()
    begun = time.perf_counter()
    options.out.mkdir(parents=True, exist_ok=True)
    database = options.out / "curate.db"
    for old in options.out.glob("curate.db*"):
        old.unlink()
    store = local_store(f"sqlite:///{database}")
    load(store, recorded(OUTPUTS))
    load(store, generated(options.generated, options.seed))
    seconds = curate(store)
    card = export(store, options.out / "dataset", Format.JSONL, 0.05)
    rows = [store.sample(n).result or {} for n in store.ids(State.CONVERTED)]
    step = max(1, len(rows) // options.measured)
    gains = measure(rows[::step][: options.measured], options.model)
    distances = [row["curation"]["distance"] for row in rows]
    rewordings = [row["curation"]["rewording"] for row in rows]
    parallelism = [row["curation"]["parallelism"] for row in rows]
    ended = yields(store)
    by_gain = histogram(gains, -0.5, 2.5)
    console = Console(width=100)
    for origin, counts in ended.items():
        show(console, origin, counts)
    show(console, "table 1", card["table1"])
    show(console, "independence: gain in nats per token, from", by_gain)
    series = {
        "parallelism": parallelism,
        "rewording distance": rewordings,
        "gain by siblings (nats per token)": gains,
    }
    plot(options.out / "curate-demo.png", series)
    store.close()
    result = {
        "samples": sum(sum(counts.values()) for counts in ended.values()),
        "yields": ended,
        "distance_max": max(distances),
        "rewording_mean": round(statistics.mean(rewordings), 4),
        "rewording_max": max(rewordings),
        "parallelism_mean": round(statistics.mean(parallelism), 3),
        "table1": card["table1"],
        "independence_samples": min(options.measured, len(rows)),
        "independence_paths": len(gains),
        "gain_quartiles": [round(q, 3) for q in statistics.quantiles(gains, n=4)],
        "gain_histogram": by_gain,
        "curate_seconds": round(seconds, 1),
        "seconds": round(time.perf_counter() - begun, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
