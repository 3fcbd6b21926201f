"""Generated tasks as training data: `python -m multiverse_trainer.tiny.records --out FILE`.

Writes JSONL (docs/data.md). The tasks of a seed are always the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from multiverse_shared.encode import TextTree
from multiverse_trainer.tiny.tasks import Family, Level, Task, draw_family, make_task, sequential

EASY_SHARE = 0.2  # of the records of a curriculum; about 15% of its tokens
LONG_SHARE = 0.75  # of the records behind a curriculum
WIDE_SHARE = 0.6  # of the records behind those; half of the others are long


def record_of(task: Task, name: str) -> dict[str, Any]:
    """The last text of a tree, `#` and the answer, is the answer of the record."""
    answer = f"#{task.answer}"
    return {
        "id": name,
        "prompt": task.prompt,
        "reasoning": sequential(task).removesuffix(answer),
        "tree": _nodes(task.tree[:-1]),
        "answer": answer,
        "dialect": "multiverse",
        "provenance": {"source": f"multiverse-tiny/{task.family}"},
    }


def _nodes(tree: TextTree) -> list[Any]:
    return [
        node
        if isinstance(node, str)
        else {
            "outlines": list(node.outlines),
            "paths": [_nodes(path) for path in node.paths],
            "conclusion": _nodes(node.conclusion),
        }
        for node in tree
    ]


def records(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Tasks of every level in turn that fits a row of `--preset tiny`: all but wide ones."""
    rng = Random(seed)
    levels = [level for level in Level if level is not Level.WIDE]
    for number in range(count):
        task = make_task(rng, level=levels[number % len(levels)])
        yield record_of(task, f"tiny-{seed}-{number}")


def curriculum(
    seed: int, count: int, families: Sequence[Family] = tuple(Family)
) -> Iterator[dict[str, Any]]:
    """Tasks to be learned in this order: easy ones first, then short and full ones."""
    rng = Random(seed)
    for number in range(count):
        level = _level(rng.random(), easy=number < EASY_SHARE * count)
        task = make_task(rng, draw_family(rng, families), level)
        yield record_of(task, f"tiny-{seed}-{number}")


def lengthened(
    seed: int, count: int, families: Sequence[Family] = tuple(Family)
) -> Iterator[dict[str, Any]]:
    """What follows a curriculum: long tasks, and some of those before so that they stay known."""
    rng = Random(f"long-{seed}")
    for number in range(count):
        long = rng.random() < LONG_SHARE
        level = Level.LONG if long else _level(rng.random(), easy=False)
        task = make_task(rng, draw_family(rng, families), level)
        yield record_of(task, f"tiny-{seed}-long-{number}")


def widened(
    seed: int, count: int, families: Sequence[Family] = tuple(Family)
) -> Iterator[dict[str, Any]]:
    """What follows long tasks: wide ones, and some of those before so that they stay known."""
    rng = Random(f"wide-{seed}")
    for number in range(count):
        draw = rng.random()
        if draw < WIDE_SHARE:
            level = Level.WIDE
        elif draw < (1 + WIDE_SHARE) / 2:
            level = Level.LONG
        else:
            level = _level(rng.random(), easy=False)
        task = make_task(rng, draw_family(rng, families), level)
        yield record_of(task, f"tiny-{seed}-wide-{number}")


def _level(draw: float, *, easy: bool) -> Level:
    if draw < 0.15:
        return Level.CONCLUSION
    if easy:
        return Level.EASY if draw < 0.8 else Level.FULL
    return Level.SHORT if draw < 0.4 else Level.FULL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="JSONL to write")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--families", nargs="+", type=Family, default=list(Family), help="kinds of tasks"
    )
    options = parser.parse_args()
    with options.out.open("w", encoding="utf-8") as file:
        for record in curriculum(options.seed, options.count, options.families):
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
