"""A signal that ends the command never comes between a child's start and its note."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from multiverse_cli.signals import ENDING, held_back


@pytest.fixture(autouse=True)
def _interrupting() -> Iterator[None]:
    """As in the command: each of them raises KeyboardInterrupt."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {name: signal.signal(name, interrupt) for name in ENDING}
    yield
    for name, handler in before.items():
        signal.signal(name, handler)


@pytest.mark.parametrize("name", ENDING)
def test_a_signal_waits_for_the_end_of_the_block(name: signal.Signals) -> None:
    done = []

    def work() -> None:
        with held_back():
            signal.raise_signal(name)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["all of it"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(name)


def test_without_a_signal_nothing_happens() -> None:
    with held_back():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


def test_an_error_of_the_block_comes_through() -> None:
    with pytest.raises(ValueError, match="broken"), held_back():
        raise ValueError("broken")


def test_other_threads_may_use_it() -> None:
    done = []

    def work() -> None:
        with held_back():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]
