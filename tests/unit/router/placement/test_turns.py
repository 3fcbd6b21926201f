from multiverse_router.placement.view import Progress
from multiverse_router.placement.waiting import Turns


def test_a_fork_gives_way_to_those_that_wait_before_it() -> None:
    turns = Turns()
    relaxed, tight = Progress(9.8, target_ms=10.0), Progress(9.2, target_ms=10.0)
    urgent, late = Progress(9.9, target_ms=10.0, priority=1), Progress(0.0, target_ms=10.0)
    turns.wait("home", tight)
    assert turns.is_first("home", urgent, 10.0)
    assert turns.is_first("home", tight, 10.0)
    assert not turns.is_first("home", relaxed, 10.0)
    assert not turns.is_first("home", late, 10.0)
    assert turns.is_first("another", relaxed, 10.0)
    turns.leave("home", tight)
    turns.leave("home", tight)
    assert turns.is_first("home", late, 10.0)


def test_a_request_that_is_over_waits_nowhere() -> None:
    turns, over, other = Turns(), Progress(9.0, target_ms=10.0), Progress(9.5, target_ms=10.0)
    for home in ("a", "b"):
        turns.wait(home, over)
    turns.end(over)
    turns.end(over)
    assert all(turns.is_first(home, other, 10.0) for home in ("a", "b"))
