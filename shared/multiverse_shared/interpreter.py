"""The interpreter: reads what branches decode, and says what to fork, join and end.

A pure state machine over token ids (arXiv 2506.09991, section 4.2): no clock, no network, no
text. Feed it `sampled` and `finished`; carry out the effects it returns. Its result does not
depend on the order in which branches report, because budgets are divided at the fork.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby

from multiverse_shared.dialect import Tag
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
    Stop,
    Tokens,
)
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.limits import Budget, Limits
from multiverse_shared.machine import Phase, Verdict
from multiverse_shared.path import Path
from multiverse_shared.rules import Rules
from multiverse_shared.scanner import Lexeme
from multiverse_shared.tree import Block, Context


class Interpreter:
    """One answer in the making.

    `prompt` is what stands before the answer, `eos` the ids that end a sequence, `may_fork`
    whether the model may fork at all. `irregular` counts what broke the dialect's grammar, by
    the values of `machine.Irregular`.
    """

    def __init__(
        self,
        grammar: Grammar,
        limits: Limits,
        prompt: Context,
        eos: Sequence[int],
        *,
        may_fork: bool = True,
    ) -> None:
        self.grammar = grammar
        self.limits = limits
        self.irregular: Counter[str] = Counter()
        self.finished_reason: Reason | None = None
        self._rules = Rules(grammar, limits, may_fork)
        self._eos = frozenset(eos)
        self._prompt = prompt
        critical = limits.max_critical_tokens
        if critical is None:
            critical = limits.max_total_tokens
        budget = Budget.of(limits.max_total_tokens, critical, limits.max_blocks)
        self._root = Path.root(grammar, budget)
        self._running: dict[str, tuple[Path, StartBranch]] = {}
        self._forked: dict[str, Path] = {}  # by the branch that wrote the plan

    @property
    def context(self) -> Context:
        """The tree so far, prompt first; blocks whose paths still run are open."""
        return (*self._prompt, *self._root.context())

    def fork_context(self, branch: str) -> Context | None:
        """What the paths forked by `branch` go on from; None when it waits for none."""
        path = self._forked.get(branch)
        return self._context_of(path) if path else None

    def begin(self) -> list[Effect]:
        """Start the root."""
        return self._continue(self._root)

    def sampled(self, branch: str, ids: Sequence[int]) -> list[Effect]:
        """`branch` decoded `ids`, a stop among them included. Unknown branches are ignored."""
        if branch not in self._running:
            return []
        path, _ = self._running[branch]
        effects: list[Effect] = []
        for token in ids:
            if token in self._eos:
                break
            path.sampled += 1
            path.append((token,), written=False)
            for lexeme in path.scanner.feed(token):
                self._read(effects, path, lexeme)
            plan = path.machine.planning
            if plan and self._rules.plan_is_full(plan):
                del self._running[branch]
                self._flush(effects, path)
                return [*_merged(effects), AbortBranch(branch), *self._close_plan(path)]
        return _merged(effects)

    def finished(self, branch: str, reason: Reason, stop: int | None = None) -> list[Effect]:
        """`branch` ended: by its stop number `stop`, or because its tokens were used up."""
        if branch not in self._running:
            return []
        path, start = self._running.pop(branch)
        effects: list[Effect] = []
        self._flush(effects, path)
        if stop is None:
            return effects + self._force_close(path, reason)
        if start.stops[stop].ids[0] in self._eos:
            ended = Reason.STOP if path.parent is None else Reason.EOS
            return effects + self._force_close(path, ended)
        if path.verdict is Verdict.PLAN_CLOSED:
            return effects + self._plan_closed(path, ())
        if path.verdict is Verdict.PATH_CLOSED:
            self._write(effects, path, self.grammar.path_tail)
            return effects + self._end(path, Reason.STOP, forced=False)
        return effects + self._continue(path, (path.branch,))  # literal text here

    def stop(self) -> list[Effect]:
        """The reader of the root has what it waited for: the answer ends here."""
        self._running.clear()
        self.finished_reason = Reason.STOP
        return [Finished(Reason.STOP)]

    def expire(self) -> list[Effect]:
        """The deadline has passed: end every open path, innermost first, and the answer."""
        self._running.clear()
        self.finished_reason = Reason.DEADLINE
        effects: list[Effect] = []
        self._expire(effects, self._root)
        return [*effects, Finished(Reason.DEADLINE)]

    def _expire(self, effects: list[Effect], path: Path) -> None:
        self._flush(effects, path)
        for child in path.children:
            self._expire(effects, child)
            if not child.ended:
                child.ended = True
                self._write(effects, child, self._rules.closing(child))
                effects.append(PathEnded(child.id, Reason.DEADLINE, True))
        if path.children:
            self._close_block(path)

    # -- one path ------------------------------------------------------------------------

    def _read(self, effects: list[Effect], path: Path, lexeme: Lexeme) -> None:
        path.machine, path.verdict = path.machine.step(lexeme)
        if path.machine.irregular:
            self.irregular[path.machine.irregular.value] += 1
        kind = Kind.TEXT if path.verdict is Verdict.TEXT else Kind.TAG
        effects.append(Tokens(path.id, lexeme.ids, kind))

    def _flush(self, effects: list[Effect], path: Path) -> None:
        for lexeme in path.scanner.flush():
            self._read(effects, path, lexeme)

    def _continue(self, path: Path, joins: tuple[str, ...] = ()) -> list[Effect]:
        """Decode on in `path`, or end it when nothing is left to spend."""
        closing = self._rules.closing(path)
        room = path.budget.tokens - len(closing)
        if room < 1:
            return self._force_close(path, Reason.LENGTH)
        tags = self.grammar.tags
        may_fork = self._rules.may_fork(path)
        stops = [Stop((token,), closing, keep=False) for token in sorted(self._eos)]
        if may_fork or path.machine.planning:
            stops.append(Stop(tags[Tag.PLAN_CLOSE], self.grammar.after_plan))
        if closing:
            stops.append(Stop(tags[Tag.PATH_CLOSE], self.grammar.path_tail))
        start = StartBranch(
            branch=path.next_branch(),
            path=path.id,
            block=path.parent.branch if path.parent else None,
            context=self._context_of(path),
            max_tokens=room,
            stops=tuple(stops),
            length_tail=closing,
            banned=() if may_fork else self._rules.openers,
            draws=path.sampled,
            joins=joins,
        )
        path.verdict = None
        self._running[start.branch] = (path, start)
        return [start]

    def _force_close(self, path: Path, reason: Reason) -> list[Effect]:
        """End a path that did not write its closing tag itself."""
        if path.parent is None:
            self.finished_reason = reason
            return [Finished(reason)]
        effects: list[Effect] = []
        self._write(effects, path, self._rules.closing(path))
        return effects + self._end(path, reason, forced=True)

    def _end(self, path: Path, reason: Reason, *, forced: bool) -> list[Effect]:
        assert path.parent is not None
        path.ended = True
        effects: list[Effect] = [PathEnded(path.id, reason, forced)]
        if all(sibling.ended for sibling in path.parent.children):
            effects += self._join(path.parent)
        return effects

    # -- fork and join -------------------------------------------------------------------

    def _close_plan(self, path: Path) -> list[Effect]:
        """The system closes a plan that has all the outlines it may have."""
        plan = path.machine.planning
        assert plan is not None
        tags = self.grammar.tags
        closing = tags[Tag.PLAN_CLOSE]
        if plan.phase is Phase.OUTLINE:
            closing = tags[Tag.OUTLINE_CLOSE] + closing
        path.machine = path.machine.close_plan()
        return self._plan_closed(path, closing)

    def _plan_closed(self, path: Path, closing: Ids) -> list[Effect]:
        """Write `closing` and what follows a plan, and fork; end the path if it can't pay."""
        ids = closing + self.grammar.after_plan
        least = len(ids) + len(self.grammar.join_header) + 1
        if path.budget.tokens - len(self._rules.closing(path)) < least:
            return self._force_close(path, Reason.LENGTH)
        effects: list[Effect] = []
        self._write(effects, path, ids)
        return effects + self._fork(path)

    def _fork(self, path: Path) -> list[Effect]:
        top = path.machine.top
        assert top is not None
        outlines = top.outlines
        budget = path.budget.spend(0, blocks=1)
        share = budget.share(len(outlines), self.limits.max_path_tokens) if outlines else budget
        headers = [self.grammar.path_header(label) for label in self._rules.labels(outlines)]
        longest = max(map(len, headers), default=0)
        if not outlines or not self._rules.affordable(path, share, longest):
            return self._conclude(path, (path.branch,))
        path.budget = budget
        path.children = [path.child(share) for _ in outlines]
        self._forked[path.branch] = path
        effects: list[Effect] = [
            Forked(path.id, tuple(child.id for child in path.children), outlines)
        ]
        for child, header in zip(path.children, headers, strict=True):
            self._write(effects, child, header)
        for child in path.children:
            effects += self._continue(child)
        return effects

    def _join(self, path: Path) -> list[Effect]:
        children = self._close_block(path)
        ids = tuple(child.id for child in children)
        joins = (path.branch, *(child.branch for child in children))
        return [Joined(path.id, ids), *self._conclude(path, joins)]

    def _close_block(self, path: Path) -> list[Path]:
        """All paths of the open block have ended: it is an item now, and what they left is back."""
        dialect = self.grammar.dialect
        children, path.children = path.children, []
        del self._forked[path.branch]
        path.items.append(
            Block(
                tuple(child.context() for child in children),
                dialect.rule,
                True,
                dialect.path_offset,
                dialect.join_offset,
            )
        )
        path.budget = path.budget.spend(
            sum(child.spent.total for child in children),
            max(child.spent.critical for child in children),
            sum(child.spent.blocks for child in children),
        )
        return children

    def _conclude(self, path: Path, joins: tuple[str, ...]) -> list[Effect]:
        """Write the join header and decode on."""
        effects: list[Effect] = []
        path.machine = path.machine.joined()
        self._write(effects, path, self.grammar.join_header)
        return effects + self._continue(path, joins)

    def _context_of(self, path: Path) -> Context:
        """All that `path` sees: what stands before its block, and what it has itself."""
        before = self._prompt if path.parent is None else self._context_of(path.parent)
        return (*before, *path.items_so_far())

    def _write(self, effects: list[Effect], path: Path, ids: Ids) -> None:
        if ids:
            path.append(ids, written=True)
            effects.append(Tokens(path.id, ids, Kind.WRITTEN))


def _merged(effects: list[Effect]) -> list[Effect]:
    """Neighbouring growth of one path and kind as one effect."""
    if len(effects) < 2:
        return effects
    merged: list[Effect] = []
    for (path, kind), group in groupby(effects, _growth):
        parts = list(group)
        if path is None or kind is None or len(parts) == 1:
            merged += parts
        else:
            ids = chain.from_iterable(part.ids for part in parts if isinstance(part, Tokens))
            merged.append(Tokens(path, tuple(ids), kind))
    return merged


def _growth(effect: Effect) -> tuple[str | None, Kind | None]:
    return (effect.path, effect.kind) if isinstance(effect, Tokens) else (None, None)
