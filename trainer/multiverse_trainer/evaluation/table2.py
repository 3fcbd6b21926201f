"""Table 2 of the Multiverse paper, in small: a model that forks beside its sequential twin.

Quality over all tasks, some at a time; then times, one task at a time and the ways in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from multiverse_trainer.evaluation.asking import Arm, Outcome, ask_all, ask_in_turn
from multiverse_trainer.evaluation.endpoint import Endpoint, Way
from multiverse_trainer.evaluation.judging import Judgements, common, right
from multiverse_trainer.evaluation.question import Question
from multiverse_trainer.evaluation.shape import ShapeReader
from multiverse_trainer.evaluation.statistics import Values, mean, paired, ratio
from multiverse_trainer.evaluation.store import Store
from multiverse_trainer.evaluation.summary import arm_summary

TWIN, PARALLEL, PLAIN, SERIAL = "twin", "parallel", "plain", "serial"


@dataclass(frozen=True, slots=True)
class Table2:
    """The arms: `twin` and `plain` without the suffix, `serial` the parallel trees path by path."""

    twin: Endpoint
    ours: Endpoint
    reader: ShapeReader
    max_tokens: int = 1500
    plain: int | None = None  # questions asked without the suffix, the first ones; None: all

    def arm(self, name: str) -> Arm:
        asked = {PARALLEL: "auto", SERIAL: "serial"}.get(name, "off")
        way = Way(name, {"parallel": asked}, self.max_tokens)
        endpoint = self.twin if name == TWIN else self.ours
        return Arm(endpoint, way, self.plain if name == PLAIN else None)

    async def run(
        self,
        questions: Sequence[Question],
        timed: int,
        answers: Store,
        times: Store,
        concurrency: int,
        advance: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """`timed`: the first so many questions are asked again, one at a time.

        `advance` is called for each answer: `answers_wanted` times.
        """
        arms = [self.arm(name) for name in (TWIN, PARALLEL, PLAIN)]
        outcome = await ask_all(arms, questions, 1, answers, concurrency, advance)
        alone = [self.arm(name) for name in (TWIN, PARALLEL, SERIAL)]
        await ask_in_turn(alone, questions[:timed], times, advance)
        judged = {
            arm.name: Judgements.of(arm.name, questions[: arm.most], 1, answers, self.reader)
            for arm in arms
        }
        clocked = {
            arm.name: Judgements.of(arm.name, questions[:timed], 1, times, self.reader)
            for arm in alone
        }
        return {**_quality(judged, outcome), **_speed(clocked)}


def answers_wanted(questions: int, timed: int, plain: int) -> int:
    return 2 * questions + min(plain, questions) + 3 * min(timed, questions)


def _quality(judged: dict[str, Judgements], outcome: Outcome) -> dict[str, Any]:
    arms = {name: arm_summary(arm, outcome) for name, arm in judged.items()}
    twin, parallel = judged[TWIN], judged[PARALLEL]
    ids = common(parallel, twin)
    difference = paired(parallel.values(right, ids), twin.values(right, ids))
    return {
        "n": len(ids),
        "parallelism": arms[PARALLEL].get("parallelism"),
        "activation": arms[PARALLEL].get("activation"),
        "malformed": arms[PARALLEL].get("malformed"),
        **{f"pass_{name}": round(mean(judged[name].values(right)).value, 5) for name in judged},
        "diff": round(difference.value, 5),
        "diff_ci": difference.as_json()["ci"],
        "failed": len(outcome.failed),
        "arms": arms,
    }


def _speed(clocked: dict[str, Judgements]) -> dict[str, Any]:
    parallel = clocked[PARALLEL]
    out: dict[str, Any] = {}
    for name in (TWIN, SERIAL):
        ids = common(parallel, clocked[name])
        if not ids:
            continue
        base_s = clocked[name].values(lambda row: row.reply.seconds, ids)
        ours_s = parallel.values(lambda row: row.reply.seconds, ids)
        found = ratio(base_s, ours_s)
        out[f"speedup_{name}"] = round(found.value, 3)
        out[f"speedup_{name}_ci"] = found.as_json()["ci"]
        out[f"speedup_{name}_median"] = _median(base_s / ours_s)
        out[f"seconds_{name}"] = _median(base_s)
        out["seconds_parallel"] = _median(ours_s)
        out["timed"] = len(ids)
    return out


def _median(values_q: Values) -> float:
    return round(float(np.median(values_q)), 4)
