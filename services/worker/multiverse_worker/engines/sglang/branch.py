"""One branch in the scheduler: what it still has to compute, and what it has sampled.

Knows the flow of a branch: load, decode, tail, end. Must not know other branches or SGLang.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from multiverse_shared.keys import KeyChain
from multiverse_shared.tree import Context, Text, count, linearise, normalise
from multiverse_worker.contract import FinishReason, Ids, Start
from multiverse_worker.engines.sglang.kv_node import Node
from multiverse_worker.engines.sglang.kv_tree import KvTree
from multiverse_worker.engines.sglang.lacking import chain_at
from multiverse_worker.engines.sglang.loading import Coming, Loader, Steps
from multiverse_worker.engines.sglang.prompts import Prompts
from multiverse_worker.engines.sglang.stage import Stage
from multiverse_worker.logit_rules import penalises
from multiverse_worker.tier.orders import Orders


@dataclass(slots=True)
class Ending:
    """Why the branch ends, once its tail is computed."""

    reason: FinishReason
    stop: int = 0
    dropped: int = 0  # sampled ids that are not part of the context
    appended: Ids = ()


@dataclass(slots=True, eq=False)
class Branch:
    """Mutable. `context` is the full one, in normal form."""

    start: Start
    context: Context
    order: tuple[int, int]  # age of its request, arrival
    root: KeyChain  # of its tenant
    pins: list[Node] = field(default_factory=list)  # locked while it loads
    stages: Steps[None] | None = None  # None: parked, holds nothing
    stage: Stage | None = None
    coming: Coming | None = None  # what its loading waits for
    leaving: bool = False  # it has ended, and is told when its KV has gone out
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

    @property
    def prompt(self) -> Text | None:
        """The text that its request begins with; None: it is not the first of its request."""
        start, first = self.start, self.context[0]
        later = start.block or start.base_key or start.consumes
        return first if isinstance(first, Text) and not later else None

    def plan(self, tree: KvTree, orders: Orders, prompts: Prompts) -> Steps[None]:
        """The steps from what is resident to the end of the branch.

        The last node pinned is the end of the final context.
        """
        now = normalise(self.final_context)
        self.reused = 0
        last = now[-1]
        decodes = self.ending is None and self.start.max_tokens > 0
        before = now[:-1] if decodes else now
        loader, root = Loader(self, tree, orders, prompts), chain_at((), lambda: self.root)
        node = tree.tenant(self.start.salt)
        node, at = yield from loader.load(node, 0, before, 0, root)
        if decodes:
            assert isinstance(last, Text)
            at = last.start if last.start is not None else at
            linear, here = count(before), chain_at(before, root)
            most = Text(last.ids[:-1], start=last.start)
            node, found = yield from loader.text(node, most, at, linear, here)
            stage = Stage(self, node, last.ids[found:], at + found, linear + found, True)
            stage.first_draw = len(self.sampled)
            decoded = yield stage
            assert decoded is not None
            node = decoded
            self.pin(tree, node)
        elif self.ending is None:
            self.ending = Ending(FinishReason.LENGTH, appended=self.start.length_tail)
        rest = self._behind(node)
        if rest:
            total = count(self.final_context)
            yield from loader.feed(node, rest, node.end, total - len(rest))

    def _behind(self, node: Node) -> Ids:
        """Ids of the final context that `node` does not hold: the last one sampled, the tail."""
        missing = count(self.final_context) - node.length
        assert self.ending is not None
        ids = self.kept + self.ending.appended
        return ids[len(ids) - missing :] if missing else ()

    def pin(self, tree: KvTree, node: Node) -> None:
        tree.lock(node)
        self.pins.append(node)

    def move_pin(self, tree: KvTree, old: Node, new: Node) -> None:
        """Hold `new`, which goes on from the last pinned node, in its place."""
        assert self.pins[-1] is old
        tree.relock(old, new)
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
