"""One worker of the fleet as the router uses it: its link, its breaker, who is at home on it."""

from __future__ import annotations

from typing import NamedTuple

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.breaker import Breaker
from multiverse_router.fleet.link import WorkerLink
from multiverse_router.placement.steps import StepCurve
from multiverse_router.placement.view import WorkerView

FRESH_S = 2.0  # so long a report of other routers' branches is believed


class _Reported(NamedTuple):
    """What placement reads of a report."""

    waiting: int
    kv_free: int
    kv_total: int
    steps: StepCurve


def _reported(report: pb.WatchLoadResponse | None) -> _Reported:
    if report is None:
        return _Reported(0, 0, 0, StepCurve())
    free = report.kv_cells_free + report.kv_cells_idle
    steps = StepCurve.of(report.step_ms.items())
    return _Reported(report.waiting, free, report.kv_cells, steps)


class Account:
    """How many answers are at home somewhere. `Home` alone changes it."""

    def __init__(self) -> None:
        self.requests = 0


class Worker(Account):
    """A member of the fleet, for as long as it is in it."""

    def __init__(self, link: WorkerLink) -> None:
        super().__init__()
        self.link = link
        self.breaker = Breaker()
        self.leaving = False  # not discovered any more: it may end what it has
        self._lost = 0  # the last stream that broke with work on it
        self._report: pb.WatchLoadResponse | None = None  # that was looked at last
        self._reported = _reported(None)

    @property
    def address(self) -> str:
        return self.link.address

    @property
    def reachable(self) -> bool:
        """What began here may go on here."""
        return self.link.connected

    @property
    def available(self) -> bool:
        """New work may be given."""
        link = self.link
        return link.connected and not link.draining and not self.leaving and self.breaker.allows

    def serves(self, name: str, digest: str) -> bool:
        """Whether it is connected, with exactly this model."""
        link = self.link
        return link.connected and link.model.digest == digest and link.model.name == name

    @property
    def idle(self) -> bool:
        """Nothing of this router is on it."""
        return not self.requests and not self.link.branches

    def lost(self, stream: int) -> None:
        """A stream broke that had work on it: one failure, however many tell of it."""
        if stream != self._lost:
            self._lost = stream
            self.breaker.failed()

    def view(self, now_s: float) -> WorkerView:
        """As placement sees it: what is known here first, what it reported second.

        Made for every decision, so a report is read once.
        """
        link, report = self.link, self.link.load
        if report is not self._report:
            self._report, self._reported = report, _reported(report)
        reported, running = self._reported, link.branches
        fresh = report is not None and now_s - link.load_at <= FRESH_S
        return WorkerView(
            id=link.address,
            accepting=self.available,
            requests=self.requests,
            running=running + link.others if fresh else running,
            waiting=reported.waiting if fresh else 0,
            loading=link.loading,
            tokens=link.tokens,
            kv_free=reported.kv_free,
            kv_total=reported.kv_total,
            steps=reported.steps,
            reported_s=None if report is None else link.load_at,
        )

    def __repr__(self) -> str:
        return f"Worker({self.address})"


class Home:
    """The worker on whose account an answer is; on `homeless`, while it has none.

    A context manager; whatever way it is left, the account is settled.
    """

    def __init__(self, homeless: Account) -> None:
        self._homeless = homeless
        self.worker: Worker | None = None

    @property
    def _account(self) -> Account:
        return self.worker or self._homeless

    def __enter__(self) -> Home:
        self._account.requests += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._account.requests -= 1

    def move(self, worker: Worker | None) -> None:
        self._account.requests -= 1
        self.worker = worker
        self._account.requests += 1
