"""One branch in the simulator: what it still has to compute, and what it has drawn.

Knows the flow of a branch: load, decode, tail, end. Must not know other branches.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from multiverse_shared.tree import Context, Text, count, normalise
from multiverse_worker.contract import FinishReason, Ids, Start
from multiverse_worker.engines.sim.loader import Feed, Feeds, Holding, load
from multiverse_worker.engines.sim.pool import KvPool, Segment
from multiverse_worker.engines.sim.scripts import Script


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the branch ends, once its tail is computed."""

    reason: FinishReason
    stop: int = 0
    dropped: int = 0  # drawn ids that are not part of the context
    appended: Ids = ()


@dataclass(slots=True, eq=False)
class Branch:
    """Mutable; owned by the engine. `context` is the full one, in normal form."""

    start: Start
    context: Context
    order: tuple[int, int]  # age of its request, arrival
    script: Script
    holding: Holding | None = None
    feeds: Feeds | None = None  # while the context is loaded
    feed: Feed | None = None
    end: Segment | None = None  # of what is loaded
    sampled: list[int] = field(default_factory=list)
    ending: Ending | None = None
    _enders: dict[int, list[int]] = field(default_factory=dict)  # last id of a stop -> numbers
    _tokens: int = 0  # of `context`

    def __post_init__(self) -> None:
        self._tokens = count(self.context)
        for number, stop in enumerate(self.start.stops):
            self._enders.setdefault(stop.ids[-1], []).append(number)

    @property
    def decoding(self) -> bool:
        """Whether its context is loaded."""
        return self.feeds is None

    @property
    def context_tokens(self) -> int:
        """Tokens of the context as it is now, the tail included once it is decided."""
        dropped, tail = (self.ending.dropped, self.ending.appended) if self.ending else (0, ())
        return self._tokens + len(self.sampled) - dropped + len(tail)

    @property
    def final_context(self) -> Context:
        """The context as it is now, in normal form."""
        kept = tuple(self.sampled)
        if self.ending:
            kept = kept[: len(kept) - self.ending.dropped] + self.ending.appended
        return normalise((*self.context, Text(kept)))

    def admit(self, pool: KvPool) -> None:
        """Begin to load; after a preemption, with all that was drawn."""
        self.holding = Holding(pool)
        draws = self.ending is None and self.start.max_tokens > 0
        root = self.holding.pin(pool.root_of(self.start.salt))
        self.feeds = load(self.holding, root, 0, self.final_context, draws=draws)

    def advance(self) -> None:
        """Set `feed` to the next of what has to be computed, if there is any."""
        if self.feed is None and self.feeds is not None:
            try:
                self.feed = next(self.feeds)
            except StopIteration as loaded:
                self.feeds, self.end = None, loaded.value
                if self.ending is None and self.start.max_tokens == 0:
                    self._end(Ending(FinishReason.LENGTH, appended=self.start.length_tail), ())

    def draw(self) -> int:
        """Take the next token and decide what to compute next."""
        script, index = self.start.script, len(self.sampled)
        token = script[index] if index < len(script) else self._drawn(index)
        self.sampled.append(token)
        ending = self._stopped(token)
        if ending:
            self._end(ending, () if ending.dropped else (token,))
        else:
            self._feed((token,), draws=True)
        return token

    def _drawn(self, index: int) -> int:
        sampling = self.start.sampling
        token = self.script(sampling.draws + index)
        for attempt in range(1, len(sampling.banned) + 1):  # each bans one id at most
            if not self._banned(token):
                break
            token = self.script(sampling.draws + index, attempt)
        return token

    def _banned(self, token: int) -> bool:
        """Whether `token` would end a banned sequence."""
        banned = self.start.sampling.banned
        return any(ids[-1] == token and self._said(ids[:-1]) for ids in banned)

    def _said(self, ids: Ids) -> bool:
        """Whether the drawn ids end with `ids`."""
        return not ids or tuple(self.sampled[-len(ids) :]) == ids

    def _stopped(self, token: int) -> Ending | None:
        for number in self._enders.get(token, ()):
            stop = self.start.stops[number]
            if self._said(stop.ids):
                dropped = 0 if stop.keep else len(stop.ids)
                return Ending(FinishReason.STOP, number, dropped, stop.tail)
        if len(self.sampled) >= self.start.max_tokens:
            return Ending(FinishReason.LENGTH, appended=self.start.length_tail)
        return None

    def _end(self, ending: Ending, last: Ids) -> None:
        """Compute what is not held yet (the last token and the tail), then end."""
        self.ending = ending
        ids = last + ending.appended
        if ids:
            self._feed(ids)

    def _feed(self, ids: Ids, *, draws: bool = False) -> None:
        """What is to be computed behind all that is there."""
        assert self.holding is not None
        growth = self.holding.growth
        if growth is None:
            assert self.end is not None
            growth = self.holding.grow(self.end, self.end.chain.position)
        self.feed = Feed(growth, ids, draws=draws)

    def settle(self) -> Segment:
        """The end of the whole context; its one pin is the caller's from now on."""
        assert self.holding is not None
        end = self.holding.settle() if self.holding.growth else self.end
        assert end is not None
        assert self.holding.pins == [end]
        self.holding = None
        return end

    def unload(self) -> None:
        """Give up what is held; it becomes ordinary cache."""
        if self.feeds is not None:
            self.feeds.close()
        if self.holding:
            self.holding.drop()
        self.feeds = self.feed = self.end = self.holding = None
