"""How slow the steps of a worker may become before its requests miss their targets.

A request with target T (milliseconds a token, in the mean over its answer) that began t seconds
ago and has delivered n tokens has

    slack = n x T + GRACE - 1000 t          milliseconds

With every step it decodes a token in each of its m branches, so it gains m x T, and pays the step.
Its paths end one after another: while one of p tokens runs, it has (1 + m) / 2 of them in the mean.
What it stands for p steps is

    pace  = SHARE x T x (1 + m) / 2 + max(0, slack - RESERVE) / p,   at most MOST x T

SHARE of the target is what everybody stands: the rest of it is taken by steps that load prompts,
and by requests that come while a path runs. Who is ahead by more than RESERVE lends of it. Who
will be late even if steps become no slower has nothing to lose, and is not asked:

    slack + p x (T x (1 + m) / 2 - step) < 0
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from multiverse_router.placement.view import Progress

GRACE_MS = 1000.0  # for the first token
SHARE = 0.84
RESERVE_MS = 1000.0
MOST = 2.0  # targets: a fork is one path, and text between forks, for a part of the time


def slack_ms(progress: Progress, now_s: float) -> float:
    """Milliseconds that the request is ahead of its target; infinite without one."""
    if progress.target_ms is None:
        return math.inf
    return progress.tokens * progress.target_ms + GRACE_MS - 1000 * (now_s - progress.began_s)


def late_share(residents: Iterable[Progress], own: Progress | None, now_s: float) -> float:
    """How many of `residents` are behind their targets, 0 to 1; 0 if it is only one of them.

    Those of lower priority than `own`, and those without a target, do not count.
    """
    least = own.priority if own else 0
    late = counted = 0
    for one in residents:
        if one.target_ms is not None and one.priority >= least:
            counted += 1
            late += slack_ms(one, now_s) < 0
    return late / counted if late > 1 else 0.0


def paces_ms(
    residents: Iterable[Progress], own: Progress, steps: float, step_ms: float, now_s: float
) -> list[float]:
    """What each of `residents` stands for the next `steps` steps, ascending; they take `step_ms`.

    `own`, those of lower priority than it and those without a target are not asked.
    """
    paces: list[float] = []
    for progress in residents:  # the loop that decisions spend their time in
        target, running = progress.target_ms, progress.running
        if target is None or progress is own or progress.priority < own.priority:
            continue
        gained = target * (1 + running) / 2 if running > 1 else target
        slack = progress.tokens * target + GRACE_MS - 1000 * (now_s - progress.began_s)
        if slack + steps * (gained - step_ms) < 0:
            continue
        pace = SHARE * gained
        if slack > RESERVE_MS:
            pace += (slack - RESERVE_MS) / steps
        most = MOST * target
        paces.append(pace if pace < most else most)
    paces.sort()
    return paces
