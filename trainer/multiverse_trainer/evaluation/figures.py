"""Figures 7, 8a and 8b of the Multiverse paper, measured on whatever is served.

7: right answers when the longest chain of tokens is bounded (budget control).
8a: time per token against the parallelism of an answer, one at a time.
8b: speed-up over the same trees one path at a time, by requests at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from multiverse_trainer.evaluation.asking import Arm, ask_all, ask_in_turn
from multiverse_trainer.evaluation.bound import StepTimes
from multiverse_trainer.evaluation.endpoint import Endpoint, Way
from multiverse_trainer.evaluation.judging import Judged, Judgements, right
from multiverse_trainer.evaluation.question import Question
from multiverse_trainer.evaluation.shape import ShapeReader
from multiverse_trainer.evaluation.statistics import mean
from multiverse_trainer.evaluation.store import Store

BINS = 6  # of parallelism, in 8a


@dataclass(frozen=True, slots=True)
class Measuring:
    """One served model; `twin` is its sequential baseline in figure 7."""

    ours: Endpoint
    twin: Endpoint
    reader: ShapeReader
    max_tokens: int = 1500

    async def budgets(
        self,
        questions: Sequence[Question],
        budgets: Sequence[int],
        store: Store,
        concurrency: int,
        advance: Callable[[], None] = lambda: None,
    ) -> list[dict[str, Any]]:
        """Figure 7: a point per budget of critical-path tokens."""
        points: list[dict[str, Any]] = []
        for budget in budgets:
            arms = [
                self._arm("parallel", "auto", budget, self.ours),
                self._arm("twin", "off", budget, self.twin),
            ]
            await ask_all(arms, questions, 1, store, concurrency, advance)
            point: dict[str, Any] = {"critical_tokens": budget}
            for name, arm in zip(("parallel", "twin"), arms, strict=True):
                judged = Judgements.of(arm.name, questions, 1, store, self.reader)
                point[f"pass_{name}"] = mean(judged.values(right)).as_json()
            points.append(point)
        return points

    async def latency(
        self,
        questions: Sequence[Question],
        store: Store,
        steps: Callable[[], StepTimes],
        advance: Callable[[], None] = lambda: None,
    ) -> list[dict[str, Any]]:
        """Figure 8a: answers in parallel and path by path, binned by their parallelism.

        `steps` gives the engine's step times, read when the answers are in.
        """
        arms = [
            self._arm("parallel", "auto", None, self.ours),
            self._arm("serial", "serial", None, self.ours),
        ]
        await ask_in_turn(arms, questions, store, advance)
        parallel, serial = (
            Judgements.of(arm.name, questions, 1, store, self.reader) for arm in arms
        )
        times = steps()
        rows = sorted(parallel.rows, key=lambda row: row.parallelism)
        bins = [part for part in np.array_split(np.arange(len(rows)), BINS) if len(part)]
        return [_bin([rows[at] for at in part], serial, times) for part in bins]

    async def speed_up(
        self,
        questions: Sequence[Question],
        batches: Sequence[int],
        steps: Callable[[], StepTimes],
        advance: Callable[[], None] = lambda: None,
    ) -> list[dict[str, Any]]:
        """Figure 8b: the wall clock of all questions, `batch` of them at once.

        Nothing is kept: a wall clock can't go on where it was stopped.
        """
        points: list[dict[str, Any]] = []
        arms = [
            self._arm("serial", "serial", None, self.ours),
            self._arm("parallel", "auto", None, self.ours),
        ]
        for batch in batches:
            with TemporaryDirectory() as scratch, Store(Path(scratch) / "answers", {}) as store:
                outcome = await ask_all(arms, questions, 1, store, batch, advance)
                rows = Judgements.of("parallel", questions, 1, store, self.reader).rows
            seconds = outcome.wall_s
            points.append(_speed_point(batch, seconds, rows, steps()))
        return points

    def _arm(self, name: str, parallel: str, budget: int | None, endpoint: Endpoint) -> Arm:
        options: dict[str, Any] = {"parallel": parallel}
        if budget:
            options["max_critical_tokens"] = budget
            name = f"{name}-{budget}"
        return Arm(endpoint, Way(name, options, self.max_tokens))


def _bin(rows: Sequence[Judged], serial: Judgements, steps: StepTimes) -> dict[str, Any]:
    """Milliseconds per token of answers of about one parallelism; medians."""

    def median(values: Sequence[float]) -> float:
        return round(float(np.median(values)), 4)

    baseline = [
        serial.by_question[r.question.id][0] for r in rows if r.question.id in serial.by_question
    ]
    return {
        "parallelism": median([row.parallelism for row in rows]),
        "answers": len(rows),
        "ms_per_token": median([1000 * row.reply.seconds / row.reply.tokens for row in rows]),
        "ms_per_token_serial": median(
            [1000 * row.reply.seconds / row.reply.tokens for row in baseline]
        ),
        "bound_ms_per_token": median(
            [steps.parallel_ms(row.shape.live) / row.reply.tokens for row in rows]
        ),
        "bound_ms_per_token_serial": median(
            [steps.serial_ms(row.shape.live) / row.reply.tokens for row in rows]
        ),
    }


def _speed_point(
    batch: int, seconds: dict[str, float], rows: Sequence[Judged], steps: StepTimes
) -> dict[str, Any]:
    serial = sum(steps.serial_ms(row.shape.live, batch) for row in rows)
    parallel = sum(steps.parallel_ms(row.shape.live, batch) for row in rows)
    tokens = sum(row.reply.tokens for row in rows)
    return {
        "batch": batch,
        "answers": len(rows),
        "serial_s": round(seconds["serial"], 3),
        "parallel_s": round(seconds["parallel"], 3),
        "speed_up": round(seconds["serial"] / seconds["parallel"], 3),
        "bound": round(serial / parallel, 3),
        "tokens_per_s": round(tokens / seconds["parallel"], 1),
    }
