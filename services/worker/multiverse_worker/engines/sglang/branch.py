"""One branch in the scheduler: what it still has to compute, and what it has sampled.

Knows the flow of a branch: load, decode, tail, end. Must not know other branches or SGLang.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

from multiverse_shared.layout import block_end
from multiverse_shared.tree import Context, Text, count, linearise, normalise
from multiverse_worker.contract import FinishReason, Ids, Start
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.logit_rules import penalises


@dataclass(slots=True, eq=False)
class Stage:
    """What one SGLang request computes: `ids` behind the resident context of `parent`."""

    branch: Branch
    parent: Node  # the last that the branch has pinned
    ids: Ids
    start: int  # position of the first id
    linear: int  # its index in the linear order of the branch's context
    decodes: bool = False  # and goes on to sample
    first_draw: int = 0  # number of tokens the branch had sampled before
    request: Any = None  # the SGLang request, once there is one

    @property
    def delta(self) -> int:
        """Index in the row minus position, the same for all tokens that it computes."""
        return self.parent.length - self.start

    @property
    def total(self) -> int:
        """Length of the row before anything is sampled."""
        return self.parent.length + len(self.ids)

    def advance(self, tree: KvTree) -> None:
        """Take over what others have computed meanwhile; one id is left to compute."""
        node, found = tree.walk(self.parent, self.ids[:-1], self.start)
        if found:
            self.branch.move_pin(tree, self.parent, node)
            self.parent, self.ids = node, self.ids[found:]
            self.start, self.linear = self.start + found, self.linear + found
            self.branch.reused += found


@dataclass(slots=True)
class Ending:
    """Why the branch ends, once its tail is computed."""

    reason: FinishReason
    stop: int = 0
    dropped: int = 0  # sampled ids that are not part of the context
    appended: Ids = ()


# A stage asks for ids to be computed; it is answered with the node that holds them.
Stages = Generator[Stage, Node, None]


@dataclass(slots=True, eq=False)
class Branch:
    """Mutable. `context` is the full one, in normal form."""

    start: Start
    context: Context
    order: tuple[int, int]  # age of its request, arrival
    pins: list[Node] = field(default_factory=list)  # locked while it loads
    stages: Stages | None = None  # None: parked, holds nothing
    stage: Stage | None = None
    sampled: list[int] = field(default_factory=list)
    ending: Ending | None = None
    reused: int = 0
    ended: bool = False
    counts: Counter[int] | None = None  # of the ids that penalties count, if there are any

    def __post_init__(self) -> None:
        sampling = self.start.sampling
        if penalises(sampling):
            self.counts = Counter(linearise(self.context)[sampling.penalised_from :])

    @property
    def recent(self) -> Ids:
        """The last sampled ids, as many as bans look at."""
        longest = max((len(ids) for ids in self.start.sampling.banned), default=0)
        return tuple(self.sampled[-longest:]) if longest else ()

    @property
    def kept(self) -> Ids:
        """The sampled ids that are part of the context."""
        dropped = self.ending.dropped if self.ending else 0
        return tuple(self.sampled[: len(self.sampled) - dropped])

    @property
    def final_context(self) -> Context:
        """The context as it is now, the tail included once it is decided."""
        tail = self.ending.appended if self.ending else ()
        return (*self.context, Text(self.kept + tail))

    def plan(self, tree: KvTree) -> Stages:
        """The stages from what is resident to the end of the branch.

        The last node pinned is the end of the final context.
        """
        now = normalise(self.final_context)
        self.reused = 0
        last = now[-1]
        decodes = self.ending is None and self.start.max_tokens > 0
        before = now[:-1] if decodes else now
        node, at = yield from self._load(tree, tree.tenant(self.start.salt), 0, before, 0)
        if decodes:
            assert isinstance(last, Text)
            at = last.start if last.start is not None else at
            node, found = tree.walk(node, last.ids[:-1], at)
            self._pin(tree, node)
            linear = count(before) + found
            stage = Stage(self, node, last.ids[found:], at + found, linear, True)
            stage.first_draw = len(self.sampled)
            self.reused += found
            node = yield stage
            self._pin(tree, node)
        elif self.ending is None:
            self.ending = Ending(FinishReason.LENGTH, appended=self.start.length_tail)
        rest = self._behind(node)
        if rest:
            total = count(self.final_context)
            yield from self._feed(tree, node, rest, node.end, total - len(rest))

    def _behind(self, node: Node) -> Ids:
        """Ids of the final context that `node` does not hold: the last one sampled, the tail."""
        missing = count(self.final_context) - node.length
        assert self.ending is not None
        ids = self.kept + self.ending.appended
        return ids[len(ids) - missing :] if missing else ()

    def _load(
        self, tree: KvTree, node: Node, at: int, context: Context, linear: int
    ) -> Generator[Stage, Node, tuple[Node, int]]:
        """Make `context`, which goes on from `node` at position `at`, resident."""
        for item in context:
            if isinstance(item, Text):
                at = item.start if item.start is not None else at
                node, found = tree.walk(node, item.ids, at)
                self.reused += found
                self._pin(tree, node)
                if found < len(item.ids):
                    node = yield from self._feed(
                        tree, node, item.ids[found:], at + found, linear + found
                    )
                at += len(item.ids)
                linear += len(item.ids)
            else:
                ends: list[Node] = []
                for path in item.paths:
                    end, _ = yield from self._load(tree, node, at + item.path_offset, path, linear)
                    ends.append(end)
                    linear += count(path)
                at = block_end(item, at)
                node = tree.join(node, tuple(ends), at)
                self._pin(tree, node)
        return node, at

    def _feed(
        self, tree: KvTree, node: Node, ids: Ids, at: int, linear: int
    ) -> Generator[Stage, Node, Node]:
        node = yield Stage(self, node, ids, at, linear)
        self._pin(tree, node)
        return node

    def _pin(self, tree: KvTree, node: Node) -> None:
        tree.lock(node)
        self.pins.append(node)

    def move_pin(self, tree: KvTree, old: Node, new: Node) -> None:
        """Hold `new`, which goes on from the last pinned node, in its place."""
        assert self.pins[-1] is old
        tree.lock(new)
        tree.unlock(old)
        self.pins[-1] = new

    def unpin(self, tree: KvTree) -> None:
        for node in self.pins:
            tree.unlock(node)
        self.pins.clear()

    def take(self, token: int) -> Ending | None:
        """The branch has sampled `token`; how it ends, if it does."""
        self.sampled.append(token)
        if self.counts is not None:
            self.counts[token] += 1
        for number, stop in enumerate(self.start.stops):
            if tuple(self.sampled[-len(stop.ids) :]) == stop.ids:
                dropped = 0 if stop.keep else len(stop.ids)
                self.ending = Ending(FinishReason.STOP, number, dropped, stop.tail)
                return self.ending
        if len(self.sampled) >= self.start.max_tokens:
            self.ending = Ending(FinishReason.LENGTH, appended=self.start.length_tail)
        return self.ending
