"""The coordinator: carries out what the interpreter asks for.

It starts branches, feeds what they decode to the interpreter, and turns effects into public
events. One coordinator serves one request; everything it started hangs under it and ends with
it, however it ends. Where branches run is the business of `branches`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.branches import Branches, Step
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
from multiverse_router.fleet.pool import Pool
from multiverse_router.logprobs import Logprobs
from multiverse_router.model import ServedModel
from multiverse_router.observer import NOBODY, Observer
from multiverse_router.request import AnswerRequest, Parallel
from multiverse_router.stop_strings import StopStrings
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
from multiverse_shared.interpreter import Interpreter
from multiverse_shared.tree import Context, count
from multiverse_shared.usage import usage

Emit = Callable[[AnswerEvent], None]


class Coordinator:
    """Runs one answer. `emit` is called for each event, in order; it must not block."""

    def __init__(
        self,
        pool: Pool,
        model: ServedModel,
        request: AnswerRequest,
        emit: Emit,
        observer: Observer = NOBODY,
    ) -> None:
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
        max_live = 1 if serial else request.limits.max_live_paths
        self._branches = Branches(pool, request, self._prompt_tokens, max_live, observer)
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
        with self._branches as branches:
            try:
                async with asyncio.timeout(request.deadline_s):
                    self._apply(self._interpreter.begin())
                    while self._interpreter.finished_reason is None:
                        self._update(await branches.next())
            except TimeoutError:
                branches.forget_waiting()
                self._apply(self._interpreter.expire())

    # -- from the workers ------------------------------------------------------------------------

    def _update(self, step: Step) -> None:
        if step.update.ids:
            self._read(step)
        if step.update.HasField("finish") and self._branches.end(step):
            self._finished(step.start, step.update.finish)

    def _read(self, step: Step) -> None:
        """Tokens that may end the answer, or have logprobs, are read one by one."""
        start, update = step.start, step.update
        if not self._request.stop and self._logprobs is None:
            self._apply(self._interpreter.sampled(start.branch, update.ids))
            return
        for index, token in enumerate(update.ids):
            if not self._branches.runs(start.branch):  # given up before this token
                return
            if self._logprobs:
                self._logprobs.read(start.path, update, index)
            self._apply(self._interpreter.sampled(start.branch, (token,)))

    def _finished(self, start: StartBranch, finish: pb.Finish) -> None:
        self._count_reuse(finish)
        stopped = finish.reason == pb.FINISH_REASON_STOP
        reason = Reason.STOP if stopped else Reason.LENGTH
        effects = self._interpreter.finished(start.branch, reason, finish.stop if stopped else None)
        base = self._interpreter.fork_context(start.branch)
        if base is not None and count(base) == finish.context_tokens:
            self._branches.goes_on(start.branch, base)
        self._apply(effects)

    def _count_reuse(self, finish: pb.Finish) -> None:
        if self._first:
            self._first = False
            self._cached = min(finish.reused_tokens, self._prompt_tokens)
        else:
            self._reused += finish.reused_tokens

    # -- to the client ---------------------------------------------------------------------------

    def _apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case StartBranch():
                    self._branches.add([effect])
                case AbortBranch():
                    self._branches.abort(effect.branch)
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
                self._apply(self._interpreter.stop())
                return  # what is left stands behind it

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
