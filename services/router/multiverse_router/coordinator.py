"""The coordinator: carries out what the interpreter asks for, on the worker.

It starts branches, feeds what they decode to the interpreter, keeps the leases, and turns
effects into public events. One coordinator serves one request; everything it started hangs
under it and ends with it, however it ends.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.detokenizer import Detokenizer
from multiverse_router.events import (
    THINK,
    AnswerEvent,
    FinishEvent,
    ForkEvent,
    JoinEvent,
    PathEndEvent,
    StartEvent,
    TextEvent,
    UsageEvent,
)
from multiverse_router.logprobs import Logprobs
from multiverse_router.model import ServedModel
from multiverse_router.request import AnswerRequest, Parallel
from multiverse_router.stop_strings import StopStrings
from multiverse_router.wire import sampling_message, start_message
from multiverse_router.worker_link import Channel, WorkerLink
from multiverse_shared.effects import (
    AbortBranch,
    Effect,
    Finished,
    Forked,
    Joined,
    Kind,
    PathEnded,
    Reason,
    StartBranch,
    Tokens,
)
from multiverse_shared.errors import WorkerUnavailable, error_from_grpc
from multiverse_shared.interpreter import Interpreter
from multiverse_shared.tree import Context, count
from multiverse_shared.usage import usage

Emit = Callable[[AnswerEvent], None]


@dataclass(frozen=True, slots=True)
class _Ended:
    """A finished branch: its lease, and the context that its key stands for."""

    lease: str
    key: bytes
    context: Context | None  # None when nothing goes on from it


class Coordinator:
    """Runs one answer. `emit` is called for each event, in order; it must not block."""

    def __init__(
        self, link: WorkerLink, model: ServedModel, request: AnswerRequest, emit: Emit
    ) -> None:
        self._link = link
        self._model = model
        self._request = request
        self._emit = emit
        self._prompt_tokens = count(request.prompt)
        self._interpreter = Interpreter(
            model.grammar,
            request.limits,
            request.prompt,
            model.eos,
            may_fork=request.parallel is not Parallel.OFF,
        )
        serial = request.parallel is Parallel.SERIAL
        self._max_live = 1 if serial else request.limits.max_live_paths
        self._waiting: list[tuple[tuple[int, ...], int, StartBranch]] = []
        self._starts: dict[int, StartBranch] = {}  # running, by number
        self._numbers: dict[str, int] = {}  # every branch started, by name
        self._ended: dict[str, _Ended] = {}
        self._text: dict[str, Detokenizer] = {}
        self._kind: dict[str, str] = {}
        self._stops = StopStrings(request.stop)
        self._logprobs = Logprobs(model.tokenizer) if request.sampling.logprobs else None
        self._cached = 0
        self._reused = 0
        self._first = True

    @property
    def answer(self) -> Context:
        """The tree so far, without the prompt; blocks whose paths still run are open."""
        return self._interpreter.context[len(self._request.prompt) :]

    async def run(self) -> None:
        """From the start event to the finish event. Raises MultiverseError when it can't."""
        request = self._request
        self._emit(StartEvent(request.id, self._model.name, self._prompt_tokens))
        with self._link.channel() as channel:
            try:
                async with asyncio.timeout(request.deadline_s):
                    self._apply(self._interpreter.begin(), channel)
                    while self._interpreter.finished_reason is None:
                        self._update(await channel.update(), channel)
            except TimeoutError:
                self._waiting.clear()
                self._apply(self._interpreter.expire(), channel)
            finally:
                for ended in self._ended.values():
                    channel.release(ended.lease)

    # -- from the worker -------------------------------------------------------------------------

    def _update(self, update: pb.Update, channel: Channel) -> None:
        start = self._starts.get(update.branch)
        if start is None:
            return
        if update.ids:
            self._read(start, update, channel)
        if update.HasField("finish"):
            if self._starts.pop(update.branch, None):
                self._finished(start, update.finish, channel)
            elif update.finish.lease:  # given up within this very frame
                channel.release(update.finish.lease)
        self._launch(channel)

    def _read(self, start: StartBranch, update: pb.Update, channel: Channel) -> None:
        """Tokens that may end the answer, or have logprobs, are read one by one."""
        if not self._request.stop and self._logprobs is None:
            self._apply(self._interpreter.sampled(start.branch, update.ids), channel)
            return
        for index, token in enumerate(update.ids):
            if update.branch not in self._starts:  # given up before this token
                return
            if self._logprobs:
                self._logprobs.read(start.path, update, index)
            self._apply(self._interpreter.sampled(start.branch, (token,)), channel)

    def _finished(self, start: StartBranch, finish: pb.Finish, channel: Channel) -> None:
        if finish.reason == pb.FINISH_REASON_FAILED:
            if finish.code == "NOT_FOUND":  # the base is gone: send the context in full
                self._start(start, channel, in_full=True)
                return
            raise error_from_grpc(finish.code, finish.message)
        if finish.reason not in (pb.FINISH_REASON_STOP, pb.FINISH_REASON_LENGTH):
            raise WorkerUnavailable("the worker gave the answer up; try again")
        self._count_reuse(start, finish)
        stopped = finish.reason == pb.FINISH_REASON_STOP
        reason = Reason.STOP if stopped else Reason.LENGTH
        effects = self._interpreter.finished(start.branch, reason, finish.stop if stopped else None)
        base = self._interpreter.fork_context(start.branch)
        same = base is not None and count(base) == finish.context_tokens
        self._ended[start.branch] = _Ended(finish.lease, finish.key, base if same else None)
        self._apply(effects, channel)

    def _count_reuse(self, start: StartBranch, finish: pb.Finish) -> None:
        if self._first:
            self._first = False
            self._cached = min(finish.reused_tokens, self._prompt_tokens)
        else:
            self._reused += finish.reused_tokens

    # -- to the worker ---------------------------------------------------------------------------

    def _launch(self, channel: Channel) -> None:
        """Start waiting branches in the order of their paths, as many as may live."""
        while self._waiting and len(self._starts) < self._max_live:
            self._start(heapq.heappop(self._waiting)[2], channel)

    def _start(self, start: StartBranch, channel: Channel, *, in_full: bool = False) -> None:
        request = self._request
        base = self._base(start) if not in_full else None
        number = channel.new_branch()
        self._starts[number] = start
        self._numbers[start.branch] = number
        message = start_message(
            start,
            branch=number,
            request=request.id,
            block=self._numbers[start.block] if start.block else None,
            base_key=base.key if base else b"",
            base_items=len(base.context) if base and base.context else 0,
            sampling=sampling_message(request.sampling, start, self._prompt_tokens),
            consumes=[self._ended[b].lease for b in start.joins if b in self._ended],
        )
        channel.start(message)

    def _base(self, start: StartBranch) -> _Ended | None:
        """The finished branch whose context begins that of `start`, if the worker has it."""
        name = start.joins[0] if start.joins else start.block
        ended = self._ended.get(name) if name else None
        if ended is None or ended.context is None:
            return None
        return ended if start.context[: len(ended.context)] == ended.context else None

    # -- to the client ---------------------------------------------------------------------------

    def _apply(self, effects: list[Effect], channel: Channel) -> None:
        for effect in effects:
            match effect:
                case StartBranch():
                    order = tuple(int(part) for part in effect.path.split("."))
                    heapq.heappush(self._waiting, (order, len(self._numbers), effect))
                case AbortBranch():
                    number = self._numbers[effect.branch]
                    self._starts.pop(number, None)
                    channel.abort(number)
                case Tokens():
                    self._say(effect)
                case Forked():
                    decode = self._model.tokenizer.decode
                    outlines = tuple(decode(ids) for ids in effect.outlines)
                    self._flush(effect.path)
                    self._emit(ForkEvent(effect.path, len(outlines), effect.paths, outlines))
                case PathEnded():
                    self._flush(effect.path)
                    self._emit(PathEndEvent(effect.path, effect.reason.value, effect.forced))
                case Joined():
                    self._emit(JoinEvent(effect.path, len(effect.paths), effect.paths))
                case Finished():
                    self._finish(effect.reason)
            if self._stops.matched and self._interpreter.finished_reason is None:
                self._apply(self._interpreter.stop(), channel)
                return  # what is left stands behind it
        self._launch(channel)

    def _say(self, tokens: Tokens) -> None:
        thinking = self._model.thinking
        if thinking is None or tokens.path != "0" or tokens.kind is not Kind.TEXT:
            self._say_alike(tokens, tokens.kind.value)
            return
        for tag, ids in thinking.pieces(tokens.ids):
            self._say_alike(replace(tokens, ids=ids), THINK if tag else tokens.kind.value)

    def _say_alike(self, tokens: Tokens, kind: str) -> None:
        path = tokens.path
        text = self._text.get(path)
        if text is None:
            text = self._text[path] = Detokenizer(self._model.tokenizer)
        if self._kind.setdefault(path, kind) != kind:
            self._flush(path)
            self._kind[path] = kind
        delta = text.add(tokens.ids)
        if self._may_stop(path):
            delta = self._stops.add(delta)
        logprobs = self._logprobs.take(tokens) if self._logprobs else None
        self._emit(TextEvent(path, kind, delta, tokens.ids, logprobs))

    def _may_stop(self, path: str) -> bool:
        """Stop strings match on what the model writes as text in the root, between two tags."""
        return path == "0" and self._kind[path] == Kind.TEXT.value

    def _flush(self, path: str) -> None:
        """Say what was held back, before something else is said."""
        held = self._text[path].flush() if path in self._text else ""
        if path in self._kind and self._may_stop(path):
            held = self._stops.add(held) + self._stops.flush()
        if held:
            self._emit(TextEvent(path, self._kind[path], held, ()))

    def _finish(self, reason: Reason) -> None:
        self._flush("0")
        counts = usage(self.answer)
        self._emit(
            UsageEvent(
                prompt_tokens=self._prompt_tokens,
                completion_tokens=counts.generated,
                written_tokens=counts.written,
                critical_path_tokens=counts.critical,
                parallelism=round(counts.parallelism, 4),
                cached_tokens=self._cached,
                reused_tokens=self._reused,
                irregular=dict(self._interpreter.irregular),
            )
        )
        self._emit(FinishEvent(reason.value, stop=self._stops.found))
