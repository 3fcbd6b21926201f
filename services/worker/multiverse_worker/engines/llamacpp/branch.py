"""One branch in the engine: what it still has to compute, and what it has sampled.

Knows the flow of a branch: load, decode, tail, end. Must not know other branches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from multiverse_shared.keys import KeyChain
from multiverse_shared.tree import Context, Text, count, linearise, normalise
from multiverse_worker.checks import longest_tail
from multiverse_worker.contract import FinishReason, Ids, Logits, Start, Update
from multiverse_worker.engines.llamacpp.cache import KvCache
from multiverse_worker.engines.llamacpp.index import Holding
from multiverse_worker.engines.llamacpp.loader import Coming, Feed, Feeds, Loaded, load
from multiverse_worker.logit_rules import penalises
from multiverse_worker.logprobs import report
from multiverse_worker.sampling import Sampler
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
    """Mutable; owned by the engine. `context` is the full one, in normal form."""

    start: Start
    context: Context
    order: tuple[int, int]  # age of its request, arrival
    root: KeyChain  # of its tenant
    fork: int | None = None  # of a path: position behind which it shares no KV with siblings
    holding: Holding | None = None
    feeds: Feeds | None = None  # while the context is loaded
    feed: Feed | None = None
    coming: Coming | None = None  # what its loading waits for
    head: Feed | None = None  # the last token of the context, computed for its logits
    loaded: Loaded = field(default_factory=Loaded)
    sampled: list[int] = field(default_factory=list)
    ending: Ending | None = None
    sampler: Sampler = field(init=False)  # outlives a preemption, as `sampled` does
    to_load: int = 0  # cells that the rest of its context takes, about
    preempted: int = 0  # how often it was put back into the queue
    _given: int = field(init=False)  # tokens of `context`, asked for with each token

    def __post_init__(self) -> None:
        self._given = count(self.context)
        sampling = self.start.sampling
        counted = linearise(self.context) if penalises(sampling) else ()
        self.sampler = Sampler(sampling, counted[sampling.penalised_from :])

    def growth(self, margin: int) -> int:
        """Cells that it may still take, with at most `margin` tokens behind its context."""
        left = self.start.max_tokens - len(self.sampled) + longest_tail(self.start)
        return self.to_load + min(left, margin)

    @property
    def decoding(self) -> bool:
        """Whether its context is loaded."""
        return self.feeds is None

    @property
    def context_tokens(self) -> int:
        """Tokens of the context as it is now, the tail included once it is decided."""
        dropped, tail = (self.ending.dropped, self.ending.appended) if self.ending else (0, ())
        return self._given + len(self.sampled) - dropped + len(tail)

    @property
    def kept(self) -> Ids:
        """The sampled ids that are part of the context."""
        dropped = self.ending.dropped if self.ending else 0
        return tuple(self.sampled[: len(self.sampled) - dropped])

    @property
    def final_context(self) -> Context:
        """The context when the branch has ended, if it ended now."""
        tail = self.ending.appended if self.ending else ()
        return (*self.context, Text(self.kept + tail))

    @property
    def present_context(self) -> Context:
        """In normal form, with all that was sampled: what must be resident to go on."""
        return normalise(self.final_context)

    def admit(self, cache: KvCache, holding: Holding, orders: Orders) -> None:
        """Begin to load into `holding`; after a preemption, with all that was sampled."""
        self.holding = holding
        self.loaded = Loaded()
        now = self.present_context
        last = now[-1]
        self.head = None
        if self.ending is None and isinstance(last, Text) and self.start.max_tokens > 0:
            self.head = Feed(holding, last.ids[-1:], count(now) - 1, draws=True)
            now = normalise((*now[:-1], Text(last.ids[:-1])))
        head = self.head.ids if self.head else ()
        self.feeds = load(cache, orders, holding, now, self.loaded, shared=self.fork, head=head)

    def loaded_all(self) -> None:
        """The context is resident."""
        self.feeds = None
        self.to_load = 0

    def begin(self) -> None:
        """Go on with the last token of the context, which stands alone, or end."""
        if self.head:
            self.feed, self.head = self.head, None
        elif self.ending is None:
            self._end(Ending(FinishReason.LENGTH, appended=self.start.length_tail), ())

    def draw(self, row: Logits) -> Update:
        """Sample the next token from `row` and decide what to compute next."""
        self.head = None  # it was computed, with the end of the context or by itself
        script, index = self.start.script, len(self.sampled)
        token = script[index] if index < len(script) else self.sampler.next(row, self.sampled)
        logprobs, top = report(row, token, self.start.sampling)
        self.sampler.take(token)
        self.sampled.append(token)
        ending = self._stopped()
        if ending:
            self._end(ending, () if ending.dropped else (token,))
        else:
            assert self.holding is not None
            self.feed = Feed(self.holding, (token,), self.context_tokens - 1, draws=True)
        return Update(self.start.branch, (token,), logprobs, top_logprobs=top)

    def _stopped(self) -> Ending | None:
        for number, stop in enumerate(self.start.stops):
            if tuple(self.sampled[-len(stop.ids) :]) == stop.ids:
                dropped = 0 if stop.keep else len(stop.ids)
                return Ending(FinishReason.STOP, number, dropped, stop.tail)
        if len(self.sampled) >= self.start.max_tokens:
            return Ending(FinishReason.LENGTH, appended=self.start.length_tail)
        return None

    def _end(self, ending: Ending, last: Ids) -> None:
        """Compute what is not in the cache yet (the last token and the tail), then end."""
        assert self.holding is not None
        self.ending = ending
        ids = last + ending.appended
        self.feed = Feed(self.holding, ids, self.context_tokens - len(ids)) if ids else None

    def unload(self) -> None:
        """Give up loading: what was held apart is dropped."""
        if self.feeds is not None:
            self.feeds.close()
        self.feeds = self.feed = self.head = self.holding = self.coming = None
        self.to_load = 0
