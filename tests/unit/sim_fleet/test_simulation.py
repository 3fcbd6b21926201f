"""The simulated fleet against times that are computed by hand."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import islice

import pytest

from multiverse_router.placement.policy import Fork, Placement, Policy, SiblingPolicy
from multiverse_router.placement.round_robin import RoundRobin
from multiverse_router.placement.siblings import Local
from multiverse_router.placement.view import Fleet
from multiverse_worker.engines.sim.timing import StepTimes
from tests.bench.sim_fleet.baselines import SIBLINGS, Serial, Taper, policy
from tests.bench.sim_fleet.measure import Case, Outcome, run
from tests.bench.sim_fleet.mixes import MIXES, Answer, Arrival, arrivals
from tests.bench.sim_fleet.requests import Request
from tests.bench.sim_fleet.simulation import Conditions, Simulation

TIMES = StepTimes(((1, 10.0), (11, 30.0)), prefill_tokens_per_s=1000.0)  # 2 ms a branch
CONDITIONS = Conditions(1, TIMES, target_ms=50.0, kv_cells=10_000, patience_s=5.0)
FORK = Answer((10, ((20,), (30,), (40,)), 5), tokens=105, critical=55, in_paths=90)
PREFILL_S = 0.1  # of the prompts below: one chunk


def arrival(at_s: float = 0.0, answer: Answer = FORK, family: int = 0) -> Arrival:
    return Arrival(at_s, family, prefix=60, question=40, answer=answer)


def simulated(policy: Policy, *came: Arrival, conditions: Conditions = CONDITIONS) -> Simulation:
    simulation = Simulation(conditions, policy)
    simulation.run(iter(came))
    return simulation


def seconds(simulation: Simulation, number: int = 0) -> float:
    request = simulation.requests[number]
    assert request.done_s is not None
    return request.done_s - request.arrival.at_s - PREFILL_S


def test_paths_at_once_take_the_steps_of_the_longest() -> None:
    steps = 10 * 10 + 20 * 14 + 10 * 12 + 10 * 10 + 5 * 10
    simulation = simulated(Policy(RoundRobin(), Local()), arrival())
    assert 1000 * seconds(simulation) == pytest.approx(steps, rel=0.01)


def test_serial_paths_take_the_steps_of_all() -> None:
    simulation = simulated(Policy(RoundRobin(), Serial()), arrival())
    assert 1000 * seconds(simulation) == pytest.approx(105 * 10, rel=0.01)


class Moved(SiblingPolicy):
    """The last paths on the other worker."""

    def __init__(self, paths: int) -> None:
        self._paths = paths

    def fork(self, fleet: Fleet, fork: Fork, now_s: float) -> Placement:
        return (*["w0"] * (fork.paths - self._paths), *["w1"] * self._paths)


def moved(paths: int) -> tuple[Simulation, Request, float]:
    """With so many of its three paths on the other worker: the fleet, the request, seconds."""
    conditions = replace(CONDITIONS, workers=2)
    simulation = simulated(Policy(RoundRobin(), Moved(paths)), arrival(), conditions=conditions)
    assert simulation.moved == paths
    return simulation, simulation.requests[0], seconds(simulation)


def test_paths_that_all_moved_load_their_prefix_once_and_are_joined_there() -> None:
    simulation, request, took_s = moved(3)
    at_once = 1000 * seconds(simulated(Policy(RoundRobin(), Local()), arrival()))
    prefix = 100 + 10  # tokens, at 1 ms each
    assert 1000 * took_s == pytest.approx(at_once + prefix, abs=60)
    assert request.home is simulation.machines[1]
    assert [machine.kv_free for machine in simulation.machines] == [10_000, 10_000]


def test_a_join_is_at_home_and_loads_what_is_elsewhere() -> None:
    prefix, last = 110, 40  # both: tokens and, alone on a worker, steps to decode it
    simulation, request, took_s = moved(1)  # 40 of 90 tokens
    assert request.home is simulation.machines[0]
    assert 1000 * took_s == pytest.approx(100 + prefix + 10 * last + last + 50, abs=60)
    simulation, request, took_s = moved(2)  # 70
    assert request.home is simulation.machines[0]
    two = 30 * 12 + 10 * 10  # steps of two branches, then of one
    assert 1000 * took_s == pytest.approx(100 + prefix + two + 70 + 50, abs=60)


@pytest.mark.parametrize("name", SIBLINGS)
@pytest.mark.parametrize("mix", MIXES)
def test_whatever_is_done_all_tokens_are_decoded_and_all_room_is_given_back(
    name: str, mix: str
) -> None:
    conditions = replace(CONDITIONS, workers=3, kv_cells=60_000, patience_s=1e9)
    simulation = Simulation(conditions, policy(name, seed=1))
    if name == "taper":
        Taper(simulation)
    came = list(islice(arrivals(MIXES[mix], per_s=2.0, seed=5), 40))
    simulation.run(iter(came))
    for request in simulation.requests:
        assert request.done_s is not None
        assert request.settled == pytest.approx(request.arrival.answer.tokens, abs=0.01)
        assert request.progress.running == 0
        assert not request.decoding
    for machine in simulation.machines:
        assert machine.kv_free == machine.kv_total
        assert not machine.residents.keys() | machine.branches.keys() | machine.paused.keys()
        assert machine.loading == pytest.approx(0.0, abs=0.1)


def test_who_finds_no_room_waits_and_is_rejected_in_the_end() -> None:
    conditions = replace(CONDITIONS, kv_cells=160, patience_s=1.0)
    short, long = Answer((50,), 50, 50, 0), Answer((110,), 110, 110, 0)
    came = [arrival(0.0, short), arrival(0.01, long), arrival(0.02, short), arrival(9.0, short)]
    simulation = simulated(Policy(RoundRobin(), Local()), *came, conditions=conditions)
    assert [request.rejected for request in simulation.requests] == [False, False, True, False]


def test_the_workers_measure_their_steps() -> None:
    simulation = simulated(Policy(RoundRobin(), Local()), arrival())
    measured = dict(simulation.machines[0].view.steps.points)
    assert measured[1] == pytest.approx(10.0, abs=0.1)
    assert measured[3] == pytest.approx(14.0, abs=0.1)


def test_a_worker_keeps_the_prefixes_it_has_loaded() -> None:
    came = [arrival(0.0), arrival(5.0), arrival(10.0, family=1)]
    simulation = simulated(Policy(RoundRobin(), Local()), *came)
    assert [request.cached for request in simulation.requests] == [0, 60, 0]


def outcome(name: str, load: float, conditions: Conditions, seed: int = 1) -> Outcome:
    case = Case("forkheavy", "poisson", load, name, seed)
    return run(case, conditions, warm_s=60.0, measured_s=60.0)


MACHINE = StepTimes.of("qwen32b-fp16-4x3090", prefill_tokens_per_s=2000.0)
FLEET = Conditions(4, MACHINE, target_ms=50.0, kv_cells=68_036, patience_s=10.0)


def test_the_same_seed_gives_the_same_run() -> None:
    first, again = (outcome("auto", 0.7, FLEET) for _ in range(2))
    untimed = {"decision_p50_us": 0.0, "decision_p99_us": 0.0, "wall_s": 0.0}
    assert asdict(first) | untimed == asdict(again) | untimed


def test_near_saturation_auto_beats_eager_and_is_no_worse_than_serial() -> None:
    good = {name: outcome(name, 1.0, FLEET).good for name in ("eager", "serial", "auto")}
    assert good["auto"] > 1.05 * good["eager"]
    assert good["auto"] > 0.97 * good["serial"]


def test_with_little_to_do_nothing_is_held_back_for_long() -> None:
    eager, auto = (outcome(name, 0.3, FLEET) for name in ("eager", "auto"))
    assert auto.good == eager.good == 1.0
    assert auto.latency_p50_s <= 1.1 * eager.latency_p50_s
