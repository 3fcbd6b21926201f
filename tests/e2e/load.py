"""The load of a worker, read from its own reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import grpc

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_protos.engine.v1.engine_pb2_grpc import EngineServiceStub

POLL_S = 0.02
RPC_TIMEOUT_S = 10.0


def eventually(condition: Callable[[], object], what: str, within_s: float = 5.0) -> None:
    """Poll until `condition` holds; AssertionError says `what` when it does not come to hold."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(POLL_S)


def busy(report: pb.WatchLoadResponse) -> int:
    """Branches and leases."""
    return int(report.running + report.waiting + report.leases)


class LoadMeter:
    """Reads one worker; use as a context manager."""

    def __init__(self, port: int) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self._stub = EngineServiceStub(self._channel)

    def __enter__(self) -> LoadMeter:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def now(self) -> pb.WatchLoadResponse:
        """The load at this moment."""
        reports = self._stub.WatchLoad(
            pb.WatchLoadRequest(), timeout=RPC_TIMEOUT_S, wait_for_ready=True
        )
        try:
            return next(reports)
        finally:
            reports.cancel()

    def until_idle(self, within_s: float = 5.0) -> None:
        """Wait until nothing runs, waits or is held; AssertionError when something stays."""
        last = self.now()

        def idle() -> bool:
            nonlocal last
            last = self.now()
            return not busy(last)

        try:
            eventually(idle, "an idle worker", within_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; the last report was: {last}") from None

    @contextmanager
    def recorded(self) -> Iterator[list[pb.WatchLoadResponse]]:
        """Every report that comes inside; the first one is there at once."""
        reports = self._stub.WatchLoad(pb.WatchLoadRequest(), wait_for_ready=True)
        seen = [next(reports)]

        def read() -> None:
            try:
                seen.extend(reports)
            except grpc.RpcError:
                return  # cancelled below

        reading = Thread(target=read)
        reading.start()
        try:
            yield seen
        finally:
            reports.cancel()
            reading.join()
