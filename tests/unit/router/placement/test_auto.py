from dataclasses import replace
from typing import Any

import pytest

from multiverse_router.placement.auto import GATHERS, LOADING_MS, AutoRoots, AutoSiblings
from multiverse_router.placement.policy import Fork, Placement, Root
from multiverse_router.placement.slack import GRACE_MS, MOST, RESERVE_MS, SHARE
from multiverse_router.placement.steps import StepCurve
from multiverse_router.placement.view import Progress, WorkerView
from multiverse_shared.errors import CapacityExceeded
from tests.unit.router.placement.fleets import StillFleet

STEPS = StepCurve(((1, 20.0), (11, 40.0)))  # 2 ms a branch
NOW = 100.0
AMPLE: dict[str, Any] = {"kv_free": 100_000, "kv_total": 100_000}


def stands(step_ms: float, priority: int = 0) -> Progress:
    """A request of one path that stands steps of so many milliseconds, and no slower ones."""
    target = step_ms / SHARE + 1e-6
    return Progress(NOW, target, priority, running=1)


def relaxed(step_ms: float) -> Progress:
    """A request that is far ahead, and stands steps of so many milliseconds."""
    return Progress(NOW, target_ms=step_ms / MOST + 1e-6, tokens=1_000_000, running=1)


def worker(id: str, running: int, **changes: Any) -> WorkerView:
    return replace(WorkerView(id, running=running, steps=STEPS, **AMPLE), **changes)


def ask(
    workers: list[WorkerView],
    on: dict[str, list[Progress]],
    paths: int,
    own: Progress | None = None,
    tokens: int = 100,
    coverage: dict[str, int] | None = None,
    fleet: int = GATHERS,
) -> Placement:
    """In a fleet that is large enough to divide, unless said; the others accept nothing."""
    others = [worker(f"{n}", 0, accepting=False) for n in range(fleet - len(workers))]
    fork = Fork("home", tokens, paths, own or Progress(NOW), 100.0, coverage or {})
    return AutoSiblings().fork(StillFleet([*workers, *others], on), fork, NOW)


def test_all_paths_run_at_once_where_nobody_minds() -> None:
    assert ask([worker("home", 9)], {"home": [Progress(0.0)]}, 4) == ("home",) * 4


def test_as_many_paths_run_as_keep_the_others_inside_their_target() -> None:
    placed = ask(
        [worker("home", 3)], {"home": [stands(32.0)]}, 5
    )  # step(7) is 32 ms, with one to come
    assert placed == ("home", "home", "home", None, None)


def test_slack_of_the_others_is_used() -> None:
    ahead = Progress(NOW, target_ms=30.0, tokens=round((RESERVE_MS - GRACE_MS + 700) / 30))
    placed = ask([worker("home", 3)], {"home": [ahead]}, 8)  # 25.2 ms and 0.7 s, over 100 steps
    assert placed.count("home") == 3


def test_who_will_be_late_in_any_case_is_not_asked() -> None:
    late = Progress(NOW - 60.0, target_ms=30.0, tokens=10, running=1)
    assert ask([worker("home", 3)], {"home": [late]}, 5) == ("home",) * 5


def test_a_request_of_which_nothing_runs_always_goes_on() -> None:
    on = {"home": [stands(25.0)]}
    assert ask([worker("home", 3)], on, 2) == ("home", None)
    assert ask([worker("home", 3)], on, 2, Progress(NOW, running=1)) == (None, None)


def test_paths_of_a_higher_priority_do_not_wait_for_those_of_a_lower_one() -> None:
    on = {"home": [stands(25.0)]}
    assert ask([worker("home", 3)], on, 2)[-1] is None
    assert ask([worker("home", 3)], on, 2, Progress(NOW, priority=1)) == ("home", "home")


def test_a_fork_that_home_has_no_room_for_moves_to_a_worker_that_has() -> None:
    workers = [worker("home", 3), worker("idle", 0), worker("busy", 9)]
    on = {"home": [stands(32.0)], "busy": [stands(32.0)]}
    assert ask(workers, on, 5) == ("idle",) * 5


def test_of_workers_that_have_room_the_one_that_runs_most_takes_a_fork() -> None:
    workers = [worker("home", 3), worker("idle", 0), worker("full", 16), worker("many", 8)]
    on = {"home": [stands(32.0)], "many": [relaxed(60.0)], "full": [relaxed(60.0)]}
    assert ask(workers, on, 5) == ("many",) * 5  # step(14) is 46 ms, step(22) 62


def test_a_fork_with_a_target_moves_to_no_worker_that_is_too_slow_for_it() -> None:
    workers = [worker("home", 2), worker("many", 8)]  # step(14) is 46 ms
    on = {"home": [stands(30.0)], "many": [relaxed(60.0)]}
    assert ask(workers, on, 5, Progress(NOW, target_ms=45.0 / MOST))[-1] is None
    assert ask(workers, on, 5, Progress(NOW, target_ms=47.0 / MOST)) == ("many",) * 5


def test_where_no_worker_has_room_fewer_than_half_of_the_requests_make_way() -> None:
    loose, tight = [relaxed(60.0), relaxed(60.0)], [stands(32.0)]
    assert ask([worker("home", 3)], {"home": [*loose, *tight]}, 5) == ("home",) * 5
    assert ask([worker("home", 3)], {"home": [*loose, *tight * 2]}, 5)[-1] == "home"
    assert ask([worker("home", 3)], {"home": [*loose, *tight * 3]}, 5)[-1] is None
    workers = [worker("home", 3), worker("other", 3)]
    on = {"home": tight, "other": [*loose, *tight]}
    assert ask(workers, on, 5) == ("other",) * 5


def test_nobody_makes_way_where_another_worker_has_room() -> None:
    workers = [worker("home", 3), worker("idle", 0)]
    on = {"home": [relaxed(60.0), relaxed(60.0), stands(32.0)]}
    assert ask(workers, on, 5) == ("idle",) * 5


def test_in_a_fleet_too_small_to_divide_nobody_makes_way() -> None:
    on = {"home": [relaxed(60.0), relaxed(60.0), stands(32.0)]}
    assert ask([worker("home", 3)], on, 5) == ("home",) * 5
    assert ask([worker("home", 3)], on, 5, fleet=GATHERS - 1) == (*["home"] * 3, None, None)
    workers = [worker("home", 3), worker("other", 3)]
    assert ask(workers, {"home": [stands(32.0)], "other": on["home"]}, 5, fleet=3)[-1] is None


def test_in_a_fleet_too_small_to_divide_forks_move_to_where_fewer_branches_run() -> None:
    on = {"home": [stands(32.0)]}
    for running, moves in ((4, False), (5, True)):
        placed = ask([worker("home", running), worker("idle", 0)], on, 5, fleet=3)
        assert (placed == ("idle",) * 5) is moves


def test_a_small_fleet_divides_for_a_fork_that_has_no_room_beside_anyone() -> None:
    on = {"home": [stands(25.0), relaxed(60.0), relaxed(60.0)]}
    workers = [worker("home", 3)]
    for target, placed in ((28.0 / SHARE, ("home", None, None)), (27.9 / SHARE, ("home",) * 3)):
        # beside another request, and one to come, 3 paths take steps of 28 ms on any worker
        own = Progress(NOW, target_ms=target)
        assert ask(workers, on, 3, own, fleet=3) == placed


def test_nothing_moves_where_loading_takes_longer_than_waiting() -> None:
    workers = [worker("home", 3), worker("idle", 0)]
    on = {"home": [stands(32.0)]}  # three of four run; the last one waits for 100 steps of 30 ms
    assert ask(workers, on, 4, tokens=6200) == ("home", "home", "home", None)
    assert ask(workers, on, 4, tokens=5800) == ("idle",) * 4
    assert ask(workers, on, 4, tokens=6200, coverage={"idle": 1000}) == ("idle",) * 4


def test_nothing_moves_to_a_worker_that_has_much_to_load() -> None:
    workers = [worker("home", 3), worker("loads", 0, loading=round(2 * LOADING_MS) + 10)]
    assert ask(workers, {"home": [stands(32.0)]}, 5)[-1] is None


def test_nothing_moves_where_loading_would_slow_others_too_much() -> None:
    workers = [worker("home", 3), worker("tight", 0)]
    on = {"home": [stands(32.0)], "tight": [stands(32.0)]}
    assert ask(workers, on, 4, tokens=1000)[-1] is None  # 28 ms, and 5 ms for loading
    assert ask(workers, on, 4, tokens=600) == ("tight",) * 4  # 28 ms, and 3 ms


def test_nothing_moves_where_loading_costs_the_fleet_more_than_the_paths_bring() -> None:
    """4 paths of 100 tokens bring 400 x 18 ms; a token of prefix costs 10 branches 0.5 ms each."""
    on = {"home": [stands(32.0)], "busy": [relaxed(60.0)]}
    workers = [worker("home", 3), worker("busy", 10)]
    own = Progress(NOW, target_ms=60.0)
    assert ask(workers, on, 4, own, tokens=1430) == ("busy",) * 4
    assert ask(workers, on, 4, own, tokens=1450)[-1] is None
    assert ask(workers, on, 4, own, tokens=1450, coverage={"busy": 100}) == ("busy",) * 4
    linear = [worker("home", 3), worker("busy", 10, steps=StepCurve(((1, 4.0), (11, 44.0))))]
    assert ask(linear, on, 4, own, tokens=100)[-1] is None  # a branch more makes no step cheaper


def test_nothing_moves_to_a_full_pool() -> None:
    workers = [worker("home", 3), worker("full", 0, kv_free=599)]
    assert ask(workers, {"home": [stands(32.0)]}, 5)[-1] is None  # 100 tokens, and 5 x 100


def test_what_is_left_of_a_fork_stays_with_what_runs_at_home() -> None:
    workers = [worker("home", 3), worker("idle", 0)]
    on = {"home": [stands(28.0)]}
    assert ask(workers, on, 3, Progress(NOW, running=2)) == ("home", None, None)
    assert ask(workers, on, 4, Progress(NOW, running=2)) == ("idle",) * 4


def test_nothing_leaves_a_worker_that_is_slower_than_its_target() -> None:
    workers = [worker("home", 15), worker("idle", 0)]
    on = {"home": [relaxed(50.0)]}  # step(15) is 48 ms
    assert ask(workers, on, 4, Progress(NOW, target_ms=47.0))[-1] is None
    assert ask(workers, on, 4, Progress(NOW, target_ms=49.0)) == ("idle",) * 4


def test_a_worker_that_has_measured_nothing_is_tried() -> None:
    unknown = worker("home", 3, steps=StepCurve())
    assert ask([unknown], {"home": [stands(1.0)]}, 3) == ("home",) * 3


def test_a_request_starts_where_its_prefix_is_unless_steps_are_much_slower_there() -> None:
    root = Root(6000, coverage={"a": 5800})  # 2.9 s of prefill
    near = StillFleet([worker("a", 1), worker("b", 0)])
    assert AutoRoots().root(near, root, NOW) == "a"
    far = StillFleet([worker("a", 6), worker("b", 0)])  # 10 ms a step more, 5 s an answer
    assert AutoRoots().root(far, root, NOW) == "b"


def test_a_request_does_not_start_where_others_wait_for_room() -> None:
    workers = StillFleet([worker("a", 0, waiting=1), worker("b", 8)])
    assert AutoRoots().root(workers, Root(100), NOW) == "b"


def test_a_request_whose_target_no_worker_can_keep_is_refused() -> None:
    target = Progress(NOW, target_ms=25.0)  # 23 ms of it may be filled: two requests
    full = StillFleet([worker("a", 2, requests=2), worker("b", 9, requests=2)])
    with pytest.raises(CapacityExceeded, match="25 ms a token"):
        AutoRoots().root(full, Root(100, progress=target), NOW)
    assert AutoRoots().root(full, Root(100), NOW) == "a"
    slow = StillFleet([worker("a", 0, steps=StepCurve(((1, 500.0),)))])  # as it was once
    assert AutoRoots().root(slow, Root(100, progress=target), NOW) == "a"
    paths = StillFleet([worker("a", 2, requests=2), worker("b", 9, requests=1)])
    assert AutoRoots().root(paths, Root(100, progress=target), NOW) == "b"


def test_a_request_is_refused_where_many_are_late_already() -> None:
    late = [Progress(NOW - 60.0, target_ms=30.0, running=1) for _ in range(2)]
    fine = [Progress(NOW, target_ms=30.0, running=1) for _ in range(14)]
    own = Root(100, progress=Progress(NOW, target_ms=30.0))

    def at(*on: list[Progress]) -> StillFleet:
        names = [f"w{n}" for n in range(len(on))]
        return StillFleet([worker(name, 1) for name in names], dict(zip(names, on, strict=True)))

    assert AutoRoots().root(at([*late, *fine]), own, NOW) == "w0"  # an eighth
    with pytest.raises(CapacityExceeded, match="slower than their targets already"):
        AutoRoots().root(at([*late, *fine[1:]]), own, NOW)
    assert AutoRoots().root(at([*late, *fine[1:]], fine), own, NOW) == "w1"
    assert AutoRoots().root(at(late[:1]), own, NOW) == "w0"  # one may have asked for too much
    assert AutoRoots().root(at(late), Root(100), NOW) == "w0"  # no target, nothing to be late for
    urgent = Root(100, progress=Progress(NOW, target_ms=30.0, priority=1))
    assert AutoRoots().root(at(late), urgent, NOW) == "w0"


def test_a_worker_that_has_measured_nothing_is_as_fast_as_another() -> None:
    new = StillFleet([worker("new", 1, steps=StepCurve()), worker("old", 0)])
    assert AutoRoots().root(new, Root(100), NOW) == "old"
    unknown = StillFleet([worker("a", 5, steps=StepCurve()), worker("b", 4, steps=StepCurve())])
    assert AutoRoots().root(unknown, Root(100), NOW) == "b"
