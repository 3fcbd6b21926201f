"""The branches of one answer: started where there is room, and moved when a worker is lost.

Knows workers, bases and leases. Must not know what tokens mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet.held import Held
from multiverse_router.fleet.link import new_branch
from multiverse_router.fleet.pool import Pool
from multiverse_router.fleet.resume import resumed, trimmed
from multiverse_router.fleet.session import Lost, Session, Told
from multiverse_router.fleet.starts import Starts
from multiverse_router.fleet.worker import Home, Worker
from multiverse_router.observer import NOBODY, JoinSource, Observer, Place
from multiverse_router.placement.view import Progress
from multiverse_router.request import AnswerRequest
from multiverse_router.wire import salt_of, sampling_message, start_message
from multiverse_shared.effects import StartBranch
from multiverse_shared.errors import (
    CapacityExceeded,
    InvalidRequest,
    MultiverseError,
    NotFound,
    RequestTooLarge,
    WorkerUnavailable,
    error_from_grpc,
)
from multiverse_shared.tree import Context, Text, count

MOST_MOVES = 5  # of one branch: what ends workers must not end all of them
MOST_FAULTS = 2  # what two workers can't compute is no fault of theirs
RECONSIDER_S = 0.05  # how often the placement of paths that wait is asked for again
_FINAL = (InvalidRequest, NotFound, RequestTooLarge)  # as wrong elsewhere as here
_ENDS = (pb.FINISH_REASON_STOP, pb.FINISH_REASON_LENGTH)


@dataclass(frozen=True, slots=True)
class Step:
    """What a branch decoded, and how it ended, if it has: by a stop, or its tokens are used up."""

    start: StartBranch
    update: pb.Update
    worker: Worker | None = None  # that has its KV; None: it was lost


@dataclass(slots=True)
class _Running:
    """A branch that is decoded, or has to go on somewhere."""

    start: StartBranch  # as it was asked for
    number: int = 0
    taken: list[int] = field(default_factory=list)  # sampled since, wherever
    skip: int = 0  # tokens that will be said again
    in_full: bool = False  # its context was sent without a base
    moves: int = 0
    faults: int = 0  # workers that failed to compute it


class Branches:
    """A context manager: everything that still runs when it is left is aborted."""

    def __init__(
        self,
        pool: Pool,
        request: AnswerRequest,
        prompt_tokens: int,
        max_live: int,
        observer: Observer = NOBODY,
    ) -> None:
        self._pool = pool
        self._observer = observer
        self._request = request
        self._prompt_tokens = prompt_tokens
        self._max_live = max_live
        self._progress = Progress(_now(), request.token_ms, request.priority or 0)
        self._session = Session(self._progress)
        self._home = Home(pool.fleet.homeless)
        self._held = Held()
        self._salt = salt_of(request.tenant)
        self._starts = Starts(pool, self._held, self._progress, self._salt)
        self._running: dict[str, _Running] = {}
        self._names: dict[int, str] = {}  # of branches on workers, by number
        self._stranded: dict[str, _Running] = {}  # running ones without a worker
        self._stranded_until = 0.0
        self._begun = False  # some worker has taken the answer
        self._done: list[Step] = []  # ended as their worker was lost
        self._scope = ExitStack()

    def __enter__(self) -> Branches:
        self._scope.callback(self._held.release)
        self._scope.callback(self._pool.leave, self._progress)
        self._scope.enter_context(self._home)
        self._scope.enter_context(self._pool.fleet.waking(self._session))
        self._scope.enter_context(self._session)
        return self

    def __exit__(self, *_: object) -> None:
        self._scope.close()

    # -- what the coordinator asks for -----------------------------------------------------------

    def add(self, starts: Sequence[StartBranch]) -> None:
        """They begin in the order of their paths, as many as may live."""
        self._starts.add(starts)

    def forget_waiting(self) -> None:
        self._starts.clear()

    def abort(self, branch: str) -> None:
        """Nothing more is told of it."""
        running = self._running.pop(branch, None)
        if running is not None:
            self._starts.loaded(running.start)
            self._stranded.pop(branch, None)
            self._names.pop(running.number, None)
            self._session.abort(running.number)

    def runs(self, branch: str) -> bool:
        return branch in self._running

    def end(self, step: Step) -> bool:
        """The last step of a branch was read. False when the branch was given up meanwhile."""
        worker, finish = step.worker, step.update.finish
        running = self._running.pop(step.start.branch, None)
        if running is None:
            if worker is not None:
                worker.link.release(finish.lease)
            return False
        self._names.pop(running.number, None)
        if worker is not None:
            worker.breaker.succeeded()
            tokens = count(step.start.context) + len(running.taken)
            self._held.add(step.start.branch, worker, running.number, finish, tokens)
        if step.start.block is not None:
            self._pool.fleet.path_ended(len(running.taken))
        if step.start.joins:
            self._observer.joined(step.start.path, _source(step.start, finish))
        self._starts.ask_again()
        return True

    def goes_on(self, branch: str, context: Context) -> None:
        """Others will go on from an ended branch, whose key stands for `context`."""
        self._held.goes_on(branch, context)

    async def next(self) -> Step:
        """The next step of a branch. MultiverseError when one can't go on anywhere."""
        while True:
            self.launch()
            if self._done:
                return self._done.pop(0)
            news = await self._session.news(self._look_again_at())
            match news:
                case Told():
                    step = self._told(news)
                    if step is not None:
                        return step
                case Lost():
                    self._lost(news)
                case None:
                    self._look_again()

    def launch(self) -> None:
        """Start waiting branches, as many as may live."""
        while self._starts and len(self._running) < self._max_live:
            self._progress.running = len(self._running)
            start = self._starts.next()
            if start is None:
                return
            self._running[start.branch] = running = _Running(start)
            try:
                worker = self._starts.place(start)
            except WorkerUnavailable:
                if not self._begun:
                    raise
                self._strand(running)
            else:
                self._start(running, worker)

    # -- what workers say ------------------------------------------------------------------------

    def _told(self, news: Told) -> Step | None:
        update = news.update
        name = self._names.get(update.branch)
        if name is None:  # given up
            news.worker.link.release(update.finish.lease)
            return None
        running = self._running[name]
        if running.skip:
            known = min(running.skip, len(update.ids))
            running.skip -= known
            update = trimmed(update, known)
        running.taken.extend(update.ids)
        self._starts.loaded(running.start)
        self._progress.tokens += len(update.ids)
        if not update.HasField("finish") or update.finish.reason in _ENDS:
            return Step(running.start, update, news.worker)
        del self._names[running.number]
        self._failed(running, news.worker, update.finish)
        return Step(running.start, trimmed(update, 0, finish=False)) if update.ids else None

    def _failed(self, running: _Running, worker: Worker, finish: pb.Finish) -> None:
        """The worker gave a branch up: it goes on as it may."""
        if finish.reason != pb.FINISH_REASON_FAILED:
            error: MultiverseError = WorkerUnavailable("the worker gave the answer up; try again")
        elif finish.code == "NOT_FOUND" and not running.in_full:  # the base is gone
            self._start(running, worker, in_full=True)
            return
        else:
            error = error_from_grpc(finish.code, finish.message)
        if isinstance(error, _FINAL):
            raise error
        if not isinstance(error, CapacityExceeded | WorkerUnavailable):
            worker.breaker.failed()
            running.faults += 1
            if running.faults >= MOST_FAULTS:
                raise error
        self._move(running, error, worker)

    def _lost(self, news: Lost) -> None:
        """Everything on a worker is gone, its leases too."""
        news.worker.lost(news.stream)
        if self._home.worker is news.worker:
            self._home.move(None)
        for number in news.branches:
            name = self._names.pop(number, None)
            if name is not None:
                self._move(self._running[name], WorkerUnavailable(news.reason))

    # -- going on elsewhere ----------------------------------------------------------------------

    def _move(
        self, running: _Running, error: MultiverseError, failed: Worker | None = None
    ) -> None:
        """Go on from the tokens so far, or end if they are all there is to say."""
        running.moves += 1
        if running.moves > MOST_MOVES:
            raise error
        rest = resumed(running.start, running.taken)
        if isinstance(rest, pb.Finish):
            self._done.append(Step(running.start, pb.Update(finish=rest)))
            return
        try:
            prefix = self._pool.prefix(rest.start.context, self._salt)
            worker = self._pool.root(prefix, [failed] if failed else [])
        except WorkerUnavailable:
            if not isinstance(error, WorkerUnavailable) or not self._pool.fleet.reroute_s:
                raise error from None
            self._strand(running)
        else:
            self._start(running, worker)

    def _strand(self, running: _Running) -> None:
        if not self._stranded:
            self._stranded_until = _now() + self._pool.fleet.reroute_s
        self._stranded[running.start.branch] = running

    def _look_again_at(self) -> float | None:
        if self._starts.deferred:
            return _now() + RECONSIDER_S
        return self._stranded_until if self._stranded else None

    def _look_again(self) -> None:
        """Time has passed, or workers have changed."""
        self._starts.ask_again()
        for name, running in list(self._stranded.items()):
            try:
                worker = self._pool.root(self._pool.prefix(running.start.context, self._salt))
            except WorkerUnavailable:
                if _now() >= self._stranded_until:
                    raise
                return
            del self._stranded[name]
            self._start(running, worker)

    def _place(self, running: _Running, worker: Worker) -> Place:
        if running.moves:
            return Place.MOVED
        return Place.HOME if worker is self._home.worker else Place.AWAY

    # -- to the workers --------------------------------------------------------------------------

    def _start(self, running: _Running, worker: Worker, *, in_full: bool = False) -> None:
        rest = resumed(running.start, running.taken)
        assert not isinstance(rest, pb.Finish), "what has ended is not started"
        start = rest.start
        base = None if in_full else self._held.base(start, worker)
        running.number = new_branch()
        running.skip = len(rest.script)
        running.in_full = in_full
        self._names[running.number] = start.branch
        message = start_message(
            start,
            branch=running.number,
            request=self._request.id,
            block=self._held.block(start, worker),
            base_key=base.key if base else b"",
            base_items=len(base.context) if base and base.context else 0,
            sampling=sampling_message(self._request.sampling, start, self._prompt_tokens),
            consumes=self._held.consumed(start, worker),
            script=rest.script,
            traceparent=self._observer.traceparent(start.path),
            salt=self._salt,
            ship_from=self._held.ships_from(start, worker),
        )
        self._begun = True
        if start.path == "0" or self._home.worker is None:
            self._home.move(worker)
        if start.block is not None and not start.joins:
            self._observer.placed(start.path, self._place(running, worker))
        tokens = count(start.context)
        known = count(base.context) if base and base.context else 0
        self._session.start(worker, message, tokens, tokens - known)


def _source(start: StartBranch, finish: pb.Finish) -> JoinSource:
    """Behind the paths stands only the header of the join, which is new."""
    header = start.context[-1]
    new = len(header.ids) if isinstance(header, Text) else 0
    if finish.reused_tokens < count(start.context) - new:
        return JoinSource.RECOMPUTED
    return JoinSource.FETCHED if finish.fetched_tokens else JoinSource.HELD


def _now() -> float:
    return asyncio.get_running_loop().time()
