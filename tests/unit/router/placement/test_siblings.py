from collections import Counter

from multiverse_router.placement.policy import Fork
from multiverse_router.placement.siblings import Local, Spread
from multiverse_router.placement.view import Progress, WorkerView
from tests.unit.router.placement.fleets import StillFleet, fleet


def fork(paths: int, tokens: int = 0, home: str = "w0") -> Fork:
    return Fork(home, tokens, paths, Progress(began_s=0.0), path_tokens=100.0)


def test_local_keeps_all_at_home_even_when_home_takes_no_more_requests() -> None:
    assert Local().fork(fleet(50, 0), fork(3), 0.0) == ("w0",) * 3
    draining = StillFleet([WorkerView("w0", accepting=False), WorkerView("w1")])
    assert Local().fork(draining, fork(2), 0.0) == ("w0",) * 2


def test_local_goes_elsewhere_when_home_has_left() -> None:
    assert Local().fork(fleet(0), fork(2, home="gone"), 0.0) == ("w0",) * 2


def test_spread_evens_out_what_runs() -> None:
    placed = Counter(Spread().fork(fleet(4, 0, 1), fork(6), 0.0))
    assert placed == {"w1": 4, "w2": 2}


def test_spread_stays_at_home_when_others_would_have_to_load_much() -> None:
    assert set(Spread().fork(fleet(0, 0), fork(4, tokens=4096), 0.0)) == {"w0"}


def test_a_spread_fork_loads_the_prefix_on_few_workers() -> None:
    placed = Counter(Spread().fork(fleet(30, 0, 0, 0), fork(8, tokens=640), 0.0))
    assert placed == {"w1": 8}
