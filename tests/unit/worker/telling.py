"""An interpreter and a simulator that speaks its dialect, without a network between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.effects import AbortBranch, Effect, Event, Reason, StartBranch
from multiverse_shared.grammar import Grammar
from multiverse_shared.interpreter import Interpreter
from multiverse_shared.limits import Limits
from multiverse_shared.tree import Text
from multiverse_worker.contract import BranchId, Finish, FinishReason, Sampling, Start
from multiverse_worker.engines.sim.engine import SimEngine, SimOptions
from multiverse_worker.engines.sim.shapes import TreeDistribution
from multiverse_worker.engines.sim.trees import AnswerStyle, TreeScripts
from tests.unit.worker.simulated import TIMES

VOCAB = 0x110020  # code points, and the tags behind them
EOS = VOCAB - 1


def source_of(dialect: str, kind: str = "tree", **distribution: Any) -> TreeScripts:
    loaded = load_dialect(dialect)
    grammar = Grammar.bind(loaded, CharacterTokenizer(loaded))
    return TreeScripts(grammar, VOCAB, EOS, AnswerStyle(kind, TreeDistribution(**distribution)))


def engine_of(source: TreeScripts) -> SimEngine:
    options = SimOptions(kv_cells=200_000, sequences=64, context_length=100_000)
    return SimEngine(options, source, TIMES, "telling", clock=lambda: 0.0)


@dataclass
class Telling:
    """One answer. `events` are those a client would be told of."""

    source: TreeScripts
    seed: int
    prompt: str = "?"
    may_fork: bool = True
    limits: Limits = field(default_factory=lambda: Limits(max_total_tokens=50_000))
    events: list[Event] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    sampled: dict[BranchId, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        grammar = self.source._grammar
        prompt = (Text(tuple(grammar.tokenizer.encode(self.prompt))),)
        self.interpreter = Interpreter(grammar, self.limits, prompt, (EOS,), may_fork=self.may_fork)
        self._engine = engine_of(self.source)
        self._names: dict[BranchId, str] = {}
        self._leases: dict[str, str] = {}

    def run(self) -> Telling:
        self._apply(self.interpreter.begin())
        while self.interpreter.finished_reason is None:
            for update in self._engine.step():
                self.sampled[update.branch].extend(update.ids)
                name = self._names[update.branch]
                self._apply(self.interpreter.sampled(name, update.ids))
                if update.finish:
                    self._finished(name, update.finish)
        return self

    def _finished(self, name: str, finish: Finish) -> None:
        assert finish.reason in (FinishReason.STOP, FinishReason.LENGTH), finish
        self._leases[name] = finish.lease
        stopped = finish.reason is FinishReason.STOP
        reason = Reason.STOP if stopped else Reason.LENGTH
        self._apply(self.interpreter.finished(name, reason, finish.stop if stopped else None))

    def _apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StartBranch):
                self._start(effect)
            elif isinstance(effect, AbortBranch):
                [branch] = [b for b, name in self._names.items() if name == effect.branch]
                self._engine.abort(branch)
            else:
                self.events.append(effect)

    def _start(self, effect: StartBranch) -> None:
        start = Start(
            BranchId(1, len(self.starts)),
            "r",
            effect.context,
            effect.max_tokens,
            Sampling(seed=self.seed, stream=effect.path, draws=effect.draws, banned=effect.banned),
            effect.stops,
            effect.length_tail,
            consumes=tuple(self._leases[name] for name in effect.joins),
        )
        self.starts.append(start)
        self.sampled[start.branch] = []
        self._names[start.branch] = effect.branch
        self._engine.start(start)
