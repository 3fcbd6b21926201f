"""What `auto` is compared with.

eager    all paths at once, on the home worker: what published engines do
serial   one path of a request at a time
taper    a controller inside of each worker that decides at every step how many branches run,
         after the idea of arXiv 2605.06914 (its code is not public; this is how we read it):
         each request keeps one branch, the others are opportunistic and run, those of the
         least slack first, as long as the step fits into the slack of the whole batch. It
         can pause what runs, which needs an engine that can; no placement can do that.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from multiverse_router.placement.auto import AutoOptions, AutoRoots, AutoSiblings
from multiverse_router.placement.policy import Fork, Placement, Policy, SiblingPolicy
from multiverse_router.placement.siblings import Local, Spread
from multiverse_router.placement.slack import slack_ms
from multiverse_router.placement.view import Fleet, Progress
from tests.bench.sim_fleet.machine import Machine
from tests.bench.sim_fleet.requests import Branch, Request
from tests.bench.sim_fleet.simulation import Simulation

TAPER_TICK_S = 0.25  # how often paused branches are looked at, beside every event
TAPER_STEPS = 5  # over which slack is spent: those of a tick
TAPER_SHARE = 0.88  # of a target that a step may take
TAPER_RESERVE_MS = 8000.0  # slack that is not spent


class Serial(SiblingPolicy):
    """The same tree, one path at a time."""

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        now = 0 if fork.progress.running else 1
        return (*[fork.home] * now, *[None] * (fork.paths - now))


SIBLINGS: dict[str, Callable[[int], SiblingPolicy]] = {
    "auto": AutoSiblings,
    "eager": Local,
    "serial": lambda seed: Serial(),
    "taper": Local,
    "spread": Spread,
}


def policy(name: str, seed: int) -> Policy:
    """All place requests alike, so that only what becomes of forks differs.

    But only `auto` refuses because others are late: it makes the baselines worse.
    """
    roots = AutoRoots(seed, None if name == "auto" else AutoOptions(late=1.0))
    return Policy(roots, SIBLINGS[name](seed))


class Taper:
    """Regulates the workers of one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._ticking: set[Machine] = set()
        simulation.regulate = self.regulate

    def regulate(self, machine: Machine) -> None:
        """Choose who decodes until the next event."""
        if len(machine.residents) < 2 and not machine.paused:
            return
        now = self._simulation.now
        base: dict[Request, Branch] = {}
        extras: list[tuple[float, Branch]] = []
        residents = self._simulation.residents(machine.id)
        budget = min((self._pace(progress, now) for progress in residents), default=math.inf)
        for branch in [*machine.branches, *machine.paused]:
            if base.setdefault(branch.request, branch) is not branch:
                extras.append((slack_ms(branch.request.progress, now), branch))
        extras.sort(key=lambda entry: entry[0])
        room = max(0, machine.view.steps.most(budget, len(base) + len(extras)) - len(base))
        run = {*base.values(), *(branch for _, branch in extras[:room])}
        for branch in [branch for branch in machine.branches if branch not in run]:
            self._simulation.rest(branch)
            machine.paused[branch] = None
        for branch in [branch for branch in machine.paused if branch in run]:
            del machine.paused[branch]
            self._simulation.wake(branch)
        if machine.paused and machine not in self._ticking:
            self._ticking.add(machine)
            self._simulation.at(now + TAPER_TICK_S, lambda: self._tick(machine))

    def _pace(self, progress: Progress, now: float) -> float:
        """The slowest step that a request stands until the next tick, in milliseconds."""
        if progress.target_ms is None:
            return math.inf
        spare = max(0.0, slack_ms(progress, now) - TAPER_RESERVE_MS)
        return TAPER_SHARE * progress.target_ms + spare / TAPER_STEPS

    def _tick(self, machine: Machine) -> None:
        self._ticking.discard(machine)
        self._simulation.touch(machine)
