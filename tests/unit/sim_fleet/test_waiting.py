from multiverse_router.placement.view import Progress
from tests.bench.sim_fleet.waiting import Waiting, WaitingForks


def test_forks_are_asked_by_priority_then_slack_and_late_ones_last_until_one_gets_nothing() -> None:
    asked: list[str] = []

    def waiting(name: str, progress: Progress, gets: bool = True) -> Waiting:
        def ask() -> bool:
            asked.append(name)
            return gets

        return Waiting("home", progress, ask)

    forks = WaitingForks()
    forks.add(waiting("relaxed", Progress(9.8, target_ms=10.0)))
    forks.add(waiting("late", Progress(0.0, target_ms=10.0), gets=False))
    forks.add(waiting("tight", Progress(9.2, target_ms=10.0)))
    forks.add(waiting("lost", Progress(-9.0, target_ms=10.0)))
    forks.add(waiting("first", Progress(9.0, target_ms=10.0, priority=1)))
    forks.freed("home", now_s=10.0)
    assert asked == ["first", "tight", "relaxed", "late"]
    forks.freed("another", now_s=10.0)
    assert len(asked) == 4


def test_a_fork_that_was_served_is_not_asked_again() -> None:
    forks = WaitingForks()
    entry = Waiting("home", Progress(0.0), lambda: True)
    forks.add(entry)
    assert forks.homes() == ["home"]
    forks.remove(entry)
    forks.remove(entry)
    assert forks.homes() == []
