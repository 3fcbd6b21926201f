"""How slow the steps of a worker may become before one of its requests misses its target.

A request with target T (milliseconds a token, in the mean over its answer) that began t seconds
ago and has delivered n tokens has

    slack = n x T + GRACE - 1000 t          milliseconds

A request that decodes one branch pays step - T of it with every step. What it stands for the next
H steps, in which one branch decodes, is

    pace  = SHARE x T + max(0, slack - RESERVE) / H       milliseconds

SHARE of the target is what everybody stands: the rest of it is taken by steps that load prompts,
and by requests that come while a path runs. Who is ahead by more than RESERVE lends of it. The
budget of a worker is the smallest pace of its requests; those without a target stand anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from multiverse_router.placement.view import Progress

GRACE_MS = 1000.0  # for the first token
SHARE = 0.88
RESERVE_MS = 8000.0


def slack_ms(progress: Progress, now_s: float) -> float:
    """Milliseconds that the request is ahead of its target; infinite without one."""
    if progress.target_ms is None:
        return math.inf
    return progress.tokens * progress.target_ms + GRACE_MS - 1000 * (now_s - progress.began_s)


def budget_ms(
    residents: Iterable[Progress], own: Progress | None, steps: float, now_s: float
) -> float:
    """The slowest step that all of `residents` stand for the next `steps` steps.

    `own` and those of lower priority than it are not asked.
    """
    budget = math.inf
    own_priority = own.priority if own is not None else None
    for progress in residents:
        target = progress.target_ms
        if target is None or progress is own:
            continue
        if own_priority is not None and progress.priority < own_priority:
            continue
        slack = progress.tokens * target + GRACE_MS - 1000 * (now_s - progress.began_s)
        pace = SHARE * target + max(0.0, slack - RESERVE_MS) / steps
        if pace < budget:
            budget = pace
    return budget
