"""One run: a policy under a load, and what came of it."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import asdict, dataclass

import numpy as np

from multiverse_router.placement.policy import Fork, Placement, Policy, Root
from multiverse_router.placement.slack import GRACE_MS
from multiverse_router.placement.view import Fleet
from multiverse_worker.engines.sim.timing import StepTimes
from tests.bench.sim_fleet import baselines
from tests.bench.sim_fleet.mixes import MIXES, QUESTION_TOKENS, Mix
from tests.bench.sim_fleet.mixes import arrivals as come
from tests.bench.sim_fleet.requests import Request
from tests.bench.sim_fleet.simulation import Conditions, Simulation

SAMPLE_S = 5.0  # between two looks at the balance


@dataclass(frozen=True, slots=True)
class Case:
    """What is run."""

    mix: str
    arrivals: str  # poisson or bursty
    load: float  # of what the fleet can do, see `saturation`
    policy: str
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of the requests that came while it was measured. Latencies count from their arrival."""

    requests: int
    good: float  # share of them inside their target, rejected and unfinished ones counted
    goodput: float  # of these, answers a second and worker
    rejected: float  # share
    latency_p50_s: float  # of whole answers: their critical path, and what they waited for
    latency_p99_s: float
    critical_p50_ms: float  # the same by tokens on the critical path
    critical_p99_ms: float
    hit_rate: float  # tokens of prompts that were found in a cache
    imbalance: float  # most branches of a worker by the mean, in the mean over time
    moved: float  # share of paths that ran elsewhere
    waited: float  # share of paths that waited
    decision_p50_us: float  # processor time of the policy, for a request or a fork
    decision_p99_us: float
    wall_s: float


class _Timed(Policy):
    """Times what it passes on."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy.root_policy, policy.sibling_policy)
        self.seconds: list[float] = []

    def root(self, fleet: Fleet, root: Root, now_s: float) -> str:
        begun = time.thread_time()
        try:
            return super().root(fleet, root, now_s)
        finally:
            self.seconds.append(time.thread_time() - begun)

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        begun = time.thread_time()
        try:
            return super().fork(fleet, fork, now_s)
        finally:
            self.seconds.append(time.thread_time() - begun)


def saturation(mix: Mix, times: StepTimes, target_ms: float, kv_cells: int) -> float:
    """Answers a second that one worker can do at most, at a mean token latency of the target.

    With b branches, prefill of q tokens a request at rate r, and N tokens an answer:
    rate x N x target = b, and step(b) = target x (1 - rate x q / r); no more requests at once
    than the pool has room for.
    """
    mean = mix.mean()
    question = statistics.mean(QUESTION_TOKENS)
    low, high = 0.0, 1000.0
    for _ in range(60):
        rate = (low + high) / 2
        branches = max(1, rate * mean.tokens * target_ms / 1000)
        left = 1 - rate * question / times.prefill_tokens_per_s
        fits = _step_ms(times, branches) <= target_ms * left
        low, high = (rate, high) if fits else (low, rate)
    room = 640 + question + mean.tokens / 2
    by_room = kv_cells / room / (mean.critical * target_ms / 1000)
    return min(low, by_room)


def _step_ms(times: StepTimes, branches: float) -> float:
    low = math.floor(branches)
    return times.step_ms(low) + (branches - low) * (times.step_ms(low + 1) - times.step_ms(low))


def run(case: Case, conditions: Conditions, warm_s: float, measured_s: float) -> Outcome:
    """Requests come for `warm_s`, then `measured_s`, and go on to come until those have ended."""
    begun = time.perf_counter()
    mix = MIXES[case.mix]
    capacity = saturation(mix, conditions.times, conditions.target_ms, conditions.kv_cells)
    per_s = case.load * capacity * conditions.workers
    timed = _Timed(baselines.policy(case.policy, case.seed))
    simulation = Simulation(conditions, timed)
    if case.policy == "taper":
        baselines.Taper(simulation)
    imbalance: list[float] = []

    def sample() -> None:
        counts = [machine.view.running for machine in simulation.machines]
        if simulation.now >= warm_s and any(counts):
            imbalance.append(max(counts) * len(counts) / sum(counts))
        if simulation.now < warm_s + measured_s:
            simulation.at(simulation.now + SAMPLE_S, sample)

    simulation.at(SAMPLE_S, sample)
    end = warm_s + measured_s

    def counted() -> list[Request]:
        return [r for r in simulation.requests if warm_s <= r.arrival.at_s < end]

    def finish() -> None:
        """Requests go on to come until all that are counted have ended, or can't be good."""
        left = [r for r in counted() if r.done_s is None and not r.rejected]
        latest = max((_due_s(r, conditions.target_ms) for r in left), default=0.0)
        if latest > simulation.now:
            simulation.at(simulation.now + SAMPLE_S, finish)
        else:
            simulation.stop()

    simulation.at(end, finish)
    simulation.run(come(mix, per_s, case.seed, case.arrivals == "bursty"))
    return _outcome(counted(), simulation, conditions, measured_s, imbalance, timed.seconds, begun)


def _due_s(request: Request, target_ms: float) -> float:
    """When the whole answer has to be there: at the mean token latency of its target."""
    ms = GRACE_MS + request.arrival.answer.tokens * target_ms
    return request.arrival.at_s + ms / 1000


def is_good(request: Request, target_ms: float) -> bool:
    return request.done_s is not None and request.done_s <= _due_s(request, target_ms)


def _outcome(
    counted: list[Request],
    simulation: Simulation,
    conditions: Conditions,
    measured_s: float,
    imbalance: list[float],
    decisions: list[float],
    begun: float,
) -> Outcome:
    good = len([r for r in counted if is_good(r, conditions.target_ms)])
    done = [r for r in counted if r.done_s is not None] or counted[:1]
    seconds = np.array([(r.done_s or math.inf) - r.arrival.at_s for r in done])
    critical = 1000 * seconds / np.array([r.arrival.answer.critical for r in done])
    prompts = sum(r.arrival.prefix + r.arrival.question for r in counted)
    decided = 1e6 * np.array(decisions)
    return Outcome(
        requests=len(counted),
        good=round(good / len(counted), 4),
        goodput=round(good / measured_s / conditions.workers, 5),
        rejected=round(len([r for r in counted if r.rejected]) / len(counted), 4),
        latency_p50_s=round(float(np.percentile(seconds, 50)), 2),
        latency_p99_s=round(float(np.percentile(seconds, 99)), 2),
        critical_p50_ms=round(float(np.percentile(critical, 50)), 1),
        critical_p99_ms=round(float(np.percentile(critical, 99)), 1),
        hit_rate=round(sum(r.cached for r in counted) / prompts, 3),
        imbalance=round(float(np.mean(imbalance or [1.0])), 3),
        moved=round(simulation.moved / max(1, simulation.paths), 4),
        waited=round(simulation.waited / max(1, simulation.paths), 4),
        decision_p50_us=round(float(np.percentile(decided, 50)), 1),
        decision_p99_us=round(float(np.percentile(decided, 99)), 1),
        wall_s=round(time.perf_counter() - begun, 2),
    )


def row(case: Case, workers: int, outcome: Outcome) -> dict[str, object]:
    return {"workers": workers, **asdict(case), **asdict(outcome)}
