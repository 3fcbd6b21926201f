"""The engine contract: what every engine does for the branches of all requests.

Token ids and context trees only; an engine knows no text, no dialect and no network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from multiverse_shared.effects import Stop
from multiverse_shared.errors import MultiverseError
from multiverse_shared.tree import Context
from multiverse_worker.cache_journal import CacheChange

Ids: TypeAlias = tuple[int, ...]
Logits: TypeAlias = NDArray[np.float32]


class RequestId(NamedTuple):
    """A request, unique in the worker: two routers may use one name."""

    stream: int
    name: str


class BranchId(NamedTuple):
    """A branch, unique in the worker."""

    stream: int  # the router stream that owns it
    number: int  # the router's own number for it


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is drawn (see `sampling`). Frozen: branches never share settings."""

    temperature: float = 0.0  # 0: greedy
    top_p: float = 1.0
    top_k: int = 0  # 0: the whole vocabulary
    seed: int = 0
    stream: str = ""  # names the path: siblings draw differently from one seed
    draws: int = 0  # index of the first draw
    banned: tuple[Ids, ...] = ()  # sequences: the last id is left out behind the others
    logprobs: bool = False
    top_logprobs: int = 0  # how many of the most probable ids are reported with theirs
    min_p: float = 0.0  # 0: off
    presence_penalty: float = 0.0  # 0: off
    frequency_penalty: float = 0.0  # 0: off
    repetition_penalty: float = 1.0  # 1: off
    penalised_from: int = 0  # linear index in the context from which ids count for penalties
    logit_bias: tuple[tuple[int, float], ...] = ()  # added to the logits of ids


@dataclass(frozen=True, slots=True)
class Start:
    """Decode one branch."""

    branch: BranchId
    request: str
    context: Context
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    stops: tuple[Stop, ...] = ()
    length_tail: Ids = ()
    block: BranchId | None = None  # the branch whose block this is a path of
    base_key: bytes = b""  # key of a leased context that `context` follows
    consumes: tuple[str, ...] = ()  # leases that end once the context is held
    script: Ids = ()  # teacher forcing: taken in place of draws
    salt: bytes = b""  # the tenant's: nothing is found that was computed under another one
    ship_from: int | None = None  # position from which its KV goes to the tier: a join elsewhere

    @property
    def owner(self) -> RequestId:
        """The request that the branch belongs to."""
        return RequestId(self.branch.stream, self.request)


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a branch. Unless aborted or failed, its whole context is held by `lease`."""

    reason: FinishReason
    stop: int = 0
    appended: Ids = ()
    lease: str = ""
    key: bytes = b""
    reused_tokens: int = 0
    context_tokens: int = 0
    error: MultiverseError | None = None
    fetched_tokens: int = 0  # of the reused ones, from the tier


class TopLogprobs(NamedTuple):
    """The most probable ids at one place, most probable first."""

    ids: Ids
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """What one step did to one branch."""

    branch: BranchId
    ids: Ids = ()
    logprobs: tuple[float, ...] = ()  # of each of `ids`, if asked for
    finish: Finish | None = None
    top_logprobs: tuple[TopLogprobs, ...] = ()  # at the place of each of `ids`, if asked for


class Capability(StrEnum):
    FREE_POSITIONS = "free_positions"  # positions need not be consecutive


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the engine is; constant from start to end."""

    engine: str
    version: str
    namespace: str  # of content keys
    context_length: int
    kv_cells: int
    vocab_size: int
    capabilities: frozenset[Capability] = frozenset()


@dataclass(frozen=True, slots=True)
class TierTotals:
    """What came of the prefix-cache tier since the start, by cause where it says so."""

    fetched_blocks: int = 0  # that became part of a context
    fetched_bytes: int = 0  # of all blocks that came in
    fetched_tokens: int = 0
    stored_blocks: int = 0
    stored_bytes: int = 0
    host_fetched_tokens: int = 0  # of prompts, from the engine's own host memory
    host_stored_tokens: int = 0
    fetch_s: float = 0.0  # branches waited for blocks
    saved_s: float = 0.0  # that computing would have taken beyond that, as measured
    recomputed: tuple[tuple[str, int], ...] = ()  # pieces that were not taken from it
    recomputed_tokens: tuple[tuple[str, int], ...] = ()
    unstored: tuple[tuple[str, int], ...] = ()  # blocks that it did not take


@dataclass(frozen=True, slots=True)
class Totals:
    """What the engine has done since it started. Counts never fall."""

    steps: int = 0
    decoded_tokens: int = 0  # computed for branches that decode, tails included
    prefilled_tokens: int = 0  # computed to load contexts
    reused_tokens: int = 0  # of loaded contexts, found in the cache
    evictions: int = 0  # idle contexts forgotten for room
    revocations: int = 0  # leases ended to break a stall
    preemptions: int = 0  # running branches put back into the queue
    failed_steps: int = 0  # batches that the engine's library could not compute
    tier: TierTotals = TierTotals()


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the engine is. Free, idle, leased and running cells are all there are."""

    running: int
    waiting: int
    leases: int
    kv_cells_free: int
    kv_cells: int
    kv_cells_idle: int = 0  # held for nobody: ordinary cache
    kv_cells_leased: int = 0  # held by leases, and by no running branch
    sequences: int = 0  # of branches and leases, where the engine has a limit on them
    step_tokens: int = 0  # computed by the last step
    step_s: float = 0.0  # which took so long
    step_ms: tuple[tuple[int, float], ...] = ()  # branches that decode, in the mean, of a step
    totals: Totals = Totals()


Observer: TypeAlias = Callable[[BranchId, int, Logits], None]


class Engine(ABC):
    """Serves all branches of all requests in one continuous batch.

    Not thread-safe: one thread calls everything but `info`.

    Results never depend on what is cached: a context is brought into the cache from whatever
    part of it is held, and the rest is computed. A lease buys speed only; an engine may
    revoke it when it must, and recomputes then.
    """

    info: EngineInfo
    observer: Observer | None = None
    """When set, it is given the logits of every token that is computed: the branch, the
    linear index of the first token in the branch's context, rows [tokens, vocab]."""

    @abstractmethod
    def start(self, start: Start) -> None:
        """Queue a branch. Always safe: what can't be served ends as a FAILED finish.

        A number that is in use ends so, too: the branch that has it is given up.
        """

    @abstractmethod
    def abort(self, branch: BranchId) -> None:
        """End a branch at the next step with ABORTED; unknown branches are ignored."""

    @abstractmethod
    def release(self, lease: str, stream: int) -> None:
        """End a lease of this stream: its KV becomes ordinary cache. Others are ignored."""

    @abstractmethod
    def lose_stream(self, stream: int) -> None:
        """Abort the branches of a router stream that broke; its leases end after a grace."""

    @abstractmethod
    def step(self) -> list[Update]:
        """Admit, compute one batch, sample, and end what has ended."""

    @abstractmethod
    def tick(self) -> None:
        """Let time pass when there is nothing to step: leases expire."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether `step` would find nothing to do."""

    @abstractmethod
    def load(self) -> Load:
        """Present load; cheap."""

    def cache_changes(self) -> list[CacheChange]:
        """Content keys that came into the cache, and that left it, since the last call.

        They are hints for routers. An engine that tells none is believed to hold what it is sent.
        """
        return []

    @abstractmethod
    def drop_cached(self) -> None:
        """Forget all KV that no running branch uses, leased or not."""

    @abstractmethod
    def close(self) -> None:
        """Free the model. Nothing may be called afterwards."""
