"""Signals that end the command, and where they must wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held_back() -> Iterator[None]:
    """Signals that end the command take effect behind the block, not within it.

    For what must not be cut in two: a child that is started, and noted. Other threads than the
    main one get no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    handlers = {name: signal.signal(name, lambda n, _: arrived.append(n)) for name in ENDING}
    try:
        yield
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)
        for number in arrived[:1]:
            signal.raise_signal(number)
