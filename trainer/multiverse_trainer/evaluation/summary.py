"""From judged answers to the figures of a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from multiverse_trainer.evaluation.asking import Outcome
from multiverse_trainer.evaluation.judging import Judged, Judgements, common, right
from multiverse_trainer.evaluation.statistics import LEVEL, mean, paired, ratio


def arm_summary(arm: Judgements, outcome: Outcome) -> dict[str, Any]:
    """All figures of one arm; `wall_s` is of the answers that this run asked for."""
    if not arm.rows:
        return {"answers": 0, "unanswered": arm.unanswered}
    tokens, critical = arm.values(_tokens), arm.values(_critical)
    return {
        "answers": len(arm.rows),
        "unanswered": arm.unanswered,
        "pass_at_1": mean(arm.values(right)).as_json(),
        "pass_at_1_by_family": {
            name: round(float(arm.family(name).values(right).mean()), 5) for name in arm.families
        },
        "no_answer": _share(arm, lambda row: row.grade.given is None),
        "cut_off": _share(arm, lambda row: not row.reply.ended),
        "activation": _share(arm, lambda row: row.shape.forked),
        "malformed": _share(arm, lambda row: row.malformed),
        "parallelism": round(float(arm.values(lambda row: row.parallelism).mean()), 4),
        "parallelism_of_sums": ratio(tokens, critical).as_json() if critical.all() else None,
        "tokens": round(float(tokens.mean()), 2),
        "critical_path_tokens": round(float(critical.mean()), 2),
        "seconds_median": round(float(np.median([row.reply.seconds for row in arm.rows])), 4),
        "seconds_mean": round(float(np.mean([row.reply.seconds for row in arm.rows])), 4),
        "asked_now": outcome.asked.get(arm.arm, 0),
        "wall_s": round(outcome.wall_s.get(arm.arm, 0.0), 2),
    }


def differences(arms: Sequence[Judgements]) -> dict[str, Any]:
    """Of pass@1 to the first arm, question by question."""
    baseline, *others = arms
    out: dict[str, Any] = {}
    for arm in others:
        ids = common(arm, baseline)
        if ids:
            found = paired(arm.values(right, ids), baseline.values(right, ids))
            out[arm.arm] = {"to": baseline.arm, "questions": len(ids), **found.as_json()}
    return out


def summary(
    arms: Sequence[Judgements], outcome: Outcome, questions: int, seeds: int
) -> dict[str, Any]:
    """The whole of a run."""
    return {
        "questions": questions,
        "seeds": seeds,
        "ci_level": LEVEL,
        "arms": {arm.arm: arm_summary(arm, outcome) for arm in arms},
        "pass_at_1_difference": differences(arms),
        "failed": len(outcome.failed),
        "failures": sorted(set(outcome.failed.values()))[:5],
    }


def _share(arm: Judgements, of: Any) -> float:
    return round(float(arm.values(of).mean()), 5)


def _tokens(row: Judged) -> float:
    return row.reply.tokens


def _critical(row: Judged) -> float:
    return row.critical
