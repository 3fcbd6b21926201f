from collections import Counter

import pytest

from multiverse_router.placement.choice import Roots, Siblings, policy
from multiverse_router.placement.least_load import LeastLoad
from multiverse_router.placement.policy import Root
from multiverse_router.placement.prefix_affinity import PrefixAffinity
from multiverse_router.placement.round_robin import RoundRobin
from multiverse_router.placement.shortlist import MOST
from multiverse_router.placement.view import WorkerView
from multiverse_shared.errors import WorkerUnavailable
from tests.unit.router.placement.fleets import StillFleet, fleet

ROOT = Root(tokens=1000)


def test_round_robin_takes_one_after_another_and_leaves_out_what_accepts_nothing() -> None:
    views = [WorkerView("w0"), WorkerView("w1", accepting=False), WorkerView("w2")]
    turns = RoundRobin()
    assert [turns.root(StillFleet(views), ROOT, 0.0) for _ in range(4)] == ["w0", "w2", "w0", "w2"]


def test_least_load_counts_what_runs_waits_and_loads() -> None:
    assert LeastLoad().root(fleet(3, 1, 2), ROOT, 0.0) == "w1"
    loads = StillFleet([WorkerView("a", running=1, loading=2048), WorkerView("b", running=2)])
    assert LeastLoad().root(loads, ROOT, 0.0) == "b"
    waits = StillFleet([WorkerView("a", running=4, waiting=3), WorkerView("b", running=5)])
    assert LeastLoad().root(waits, ROOT, 0.0) == "b"


def test_a_cache_miss_goes_to_the_least_loaded_worker() -> None:
    assert PrefixAffinity().root(fleet(3, 1, 2), ROOT, 0.0) == "w1"


def test_the_holder_of_a_prefix_is_taken_until_it_has_too_much_to_do() -> None:
    root = Root(tokens=1000, coverage={"w0": 640})
    assert PrefixAffinity().root(fleet(9, 0), root, 0.0) == "w0"
    assert PrefixAffinity().root(fleet(11, 0), root, 0.0) == "w1"


@pytest.mark.parametrize("roots", Roots)
def test_no_worker_that_accepts_is_an_error_with_a_remedy(roots: Roots) -> None:
    nobody = StillFleet([WorkerView("a", accepting=False)])
    with pytest.raises(WorkerUnavailable, match="try again"):
        policy(roots, Siblings.LOCAL).root(nobody, ROOT, 0.0)


@pytest.mark.parametrize("roots", [Roots.LEAST_LOAD, Roots.PREFIX_AFFINITY])
def test_the_last_worker_that_accepts_is_found_in_a_large_fleet(roots: Roots) -> None:
    workers = [WorkerView(f"w{n}", accepting=n == 700) for n in range(1000)]
    assert policy(roots, Siblings.LOCAL).root(StillFleet(workers), ROOT, 0.0) == "w700"


def test_a_large_fleet_is_sampled_but_the_holder_of_a_prefix_is_always_seen() -> None:
    large = fleet(*[0] * 500)
    root = Root(tokens=1000, coverage={"w321": 1000})
    affinity = PrefixAffinity(seed=1)
    assert {affinity.root(large, root, 0.0) for _ in range(20)} == {"w321"}


@pytest.mark.parametrize("roots", [Roots.PREFIX_AFFINITY, Roots.AUTO])
def test_a_prefix_that_all_hold_does_not_collapse_on_one_worker(roots: Roots) -> None:
    large = fleet(*[0] * 500)
    root = Root(tokens=1000, coverage={worker.id: 1000 for worker in large.workers})
    picks = policy(roots, Siblings.LOCAL, seed=1)
    assert len({picks.root(large, root, 0.0) for _ in range(100)}) > 25


def test_picks_of_a_sample_keep_a_large_fleet_even() -> None:
    counts = Counter[str]()
    picks = LeastLoad(seed=7)
    views = [WorkerView(f"w{n}") for n in range(MOST * 4)]
    large = StillFleet(views)
    for _ in range(len(views) * 8):
        id = picks.root(large, ROOT, 0.0)
        counts[id] += 1
        views[int(id[1:])] = WorkerView(id, running=counts[id])
    assert max(counts.values()) <= 9
