"""The plugin in one scheduler process: owns its branches and the channel to the worker."""

from __future__ import annotations

import os
import time
from typing import Any

import sglang
import torch
from sglang.srt.runtime_context import get_parallel
from sglang.utils import TypeBasedDispatcher

from multiverse_worker.contract import Capability, EngineInfo, Load, Totals
from multiverse_worker.engines.sglang.branches import NOTHING_TOLD, Branches, Told
from multiverse_worker.engines.sglang.channel import Bell, Channel, tier_settings
from multiverse_worker.engines.sglang.hicache import HiCache
from multiverse_worker.engines.sglang.messages import (
    NAMESPACE_VARIABLE,
    Commands,
    Report,
    Seen,
    Verb,
)
from multiverse_worker.engines.sglang.pool import PoolSlots, check_tier
from multiverse_worker.engines.sglang.pressure import Order
from multiverse_worker.engines.sglang.requests import BatchPlan, Requests
from multiverse_worker.engines.sglang.traffic import Traffic
from multiverse_worker.step_meter import StepMeter
from multiverse_worker.tier.launch import launch_transfer

TICK_S = 0.25
STALL_S = 1.0
TIER_WAIT_S = 0.002  # the tier's thread runs meanwhile


class Host:
    """Made when the scheduler is complete. Only the first rank has the channel.

    InvalidRequest says what the tier lacks.
    """

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._cache = scheduler.tree_cache
        self._requests = Requests(scheduler)
        self._traffic = self._open_traffic()
        self.branches = Branches(
            self._cache.contexts,
            _info(scheduler),
            scheduler.max_req_len - 1,
            self._requests.submit,
            self._requests.withdraw,
            self._traffic,
        )
        self._cache.on_computed = self.branches.computed
        self._cache.on_reset = self.branches.reset
        self._cache.on_leaving = self._traffic.prompts.leave
        scheduler._request_dispatcher += TypeBasedDispatcher([(Commands, self._carry_out)])
        self.observing = False
        self.plan: BatchPlan | None = None  # of the forward under way
        self._channel = Channel(scheduler) if get_parallel().tp_rank == 0 else None
        self._seen: list[Seen] = []
        self._dropped = 0
        self._decoded = self._prefilled = self._step_tokens = 0
        self._step_s = self._last_result = 0.0
        self._sizes = StepMeter()
        self._told: dict[int, Told] = {}
        self._last_tick = 0.0
        self._stalled_since: float | None = None

    def _open_traffic(self) -> Traffic:
        slots = PoolSlots(self._cache)
        settings = tier_settings()
        if settings.tier_url:
            check_tier(get_parallel().tp_size)
            slots.check()
        transfer = launch_transfer(settings)
        self._bell = Bell(self._scheduler)
        if transfer.tier:
            transfer.tier.on_news = self._bell.ring
        store = HiCache(self._cache) if self._scheduler.enable_hierarchical_cache else None
        return Traffic(transfer, self._cache.contexts, slots, self._requests.row, store)

    def say_hello(self) -> None:
        if self._channel:
            self._channel.send(Report(self._load(), info=self.branches.info))

    # -- commands ------------------------------------------------------------------------------

    def poll(self) -> list[Commands]:
        """What the worker wants, and that time has passed; begins an iteration of the loop."""
        assert self._channel
        self._move()
        items = self._channel.receive()
        now = time.monotonic()
        if now - self._last_tick >= TICK_S:
            self._last_tick = now
            items.append((Verb.TICK, now))
        return [Commands(tuple(items))] if items else []

    def _carry_out(self, commands: Commands) -> None:
        for verb, argument in commands.items:
            match verb:
                case Verb.START:
                    self.branches.start(argument)
                case Verb.ABORT:
                    self.branches.abort(argument)
                case Verb.RELEASE:
                    self.branches.roster.release(*argument)
                case Verb.LOSE_STREAM:
                    self.branches.lose_stream(argument)
                case Verb.DROP_CACHED:
                    self._drop_cached(argument)
                case Verb.OBSERVE:
                    self.observing = argument
                case Verb.TICK:
                    self.branches.roster.tick(argument)
        self._report()

    def _move(self) -> None:
        """Let go on what waited for the tier. There is one rank only, if there is a tier."""
        self._bell.still()
        self._traffic.pace.begin(decoding=not self._scheduler.running_batch.is_empty())
        if not self.branches.moving:
            return
        self.branches.move(self._requests.queued)
        if self._traffic.pace.spent:
            self._bell.ring()  # there is more to do: don't sleep
        if self.branches.updates:
            self._report()

    def _drop_cached(self, number: int) -> None:
        self.branches.roster.end_leases()
        self._cache.contexts.check()
        self._cache.drop_idle()
        self._dropped = number

    # -- steps ---------------------------------------------------------------------------------

    def after_planning(self, idle: bool) -> None:
        """Notice when nothing runs though branches wait: then memory is held by leases."""
        waiting = self._requests.queued()
        self.branches.resume_parked(bool(waiting))
        moving = bool(self.branches.moving)  # they end within the timeout of the tier
        if idle and moving and self._traffic.tier:
            self._traffic.tier.wait(TIER_WAIT_S)
        if moving or not (idle and waiting and self._scheduler.last_batch is None):
            self._stalled_since = None
            return
        oldest = min(stage.branch.order for stage in waiting)
        if self.relieve(oldest, alone=True):
            return
        now = self.branches.roster.now  # the same on all ranks
        if self._stalled_since is None:
            self._stalled_since = now
        elif now - self._stalled_since >= STALL_S and not self.relieve(
            oldest, alone=True, desperate=True
        ):
            self.branches.give_up(oldest)
            self._report()

    def relieve(self, oldest: Order, *, alone: bool, desperate: bool = False) -> bool:
        queued = self._requests.queued()
        return self.branches.pressure.relieve(oldest, queued, alone=alone, desperate=desperate)

    def before_result(self, batch: Any, result: Any) -> None:
        told = getattr(result.logits_output, "multiverse_told", None)
        self._told = {}
        if told:
            if result.copy_done is not None:
                result.copy_done.synchronize()
            self._told = {id(batch.reqs[row]): values for row, values in told.rows()}

    def told_of(self, request: Any) -> Told:
        return self._told.get(id(request), NOTHING_TOLD)

    def after_result(self, batch: Any) -> None:
        now = time.monotonic()
        # With overlap a step is launched before the one before it has ended.
        self._step_s = now - max(batch.launch_ts, self._last_result)
        self._last_result = now
        if batch.forward_mode.is_decode() and batch.reqs:
            self._sizes.saw(len(batch.reqs), self._step_s)
        elif batch.forward_mode.is_extend():
            self._traffic.orders.computing.add(sum(batch.extend_lens), self._step_s)
        self.branches.settle()
        self._report()

    def planned(self, plan: BatchPlan | None) -> None:
        """A step is about to be computed."""
        self.plan = plan
        if plan:
            self._decoded += plan.decoded
            self._prefilled += sum(plan.widths) - plan.decoded
            self._step_tokens = sum(plan.widths)

    def saw(self, plan: BatchPlan, logits: torch.Tensor) -> None:
        """Note the logits of all tokens of a step."""
        if not self._channel:
            return
        at = 0
        for stage, length, width in zip(plan.stages, plan.lengths, plan.widths, strict=True):
            if stage and not stage.branch.ended:
                linear = length - width - stage.parent.length + stage.linear
                rows = logits[at : at + width].float().cpu().numpy().copy()
                self._seen.append(Seen(stage.branch.start.branch, linear, rows))
            at += width

    # -- reports -------------------------------------------------------------------------------

    def _report(self) -> None:
        updates, self.branches.updates = tuple(self.branches.updates), []
        seen, self._seen = tuple(self._seen), []
        if self._channel:
            self._channel.send(Report(self._load(), updates, seen, self._dropped))

    def _load(self) -> Load:
        queued, branches = self._requests.queued(), self.branches
        waiting = branches.waiting(queued)
        return Load(
            running=len(branches) - waiting,
            waiting=waiting,
            leases=len(branches.roster.leases),
            kv_cells_free=self._scheduler.token_to_kv_pool_allocator.available_size(),
            kv_cells=branches.info.kv_cells,
            kv_cells_idle=self._cache.evictable_size(),
            kv_cells_leased=self._cache.contexts.leased,
            step_tokens=self._step_tokens,
            step_s=self._step_s,
            step_ms=self._sizes.step_ms,
            totals=Totals(
                steps=self._scheduler.forward_ct,
                decoded_tokens=self._decoded,
                prefilled_tokens=self._prefilled,
                reused_tokens=branches.reused,
                evictions=self._cache.contexts.evictions,
                revocations=branches.pressure.revoked,
                preemptions=branches.pressure.parked,
                tier=self._traffic.orders.counts.totals,
            ),
        )


def _info(scheduler: Any) -> EngineInfo:
    model = scheduler.model_config
    config = model.hf_text_config
    cells = scheduler.max_total_num_tokens
    dtype = str(scheduler.token_to_kv_pool_allocator.dtype).removeprefix("torch.")
    if model.quantization:
        dtype = f"{dtype}-{model.quantization}"
    shards = get_parallel().tp_size
    return EngineInfo(
        engine="sglang",
        version=sglang.__version__,
        namespace=f"{os.environ[NAMESPACE_VARIABLE]}/sglang-{sglang.__version__}/{dtype}-tp{shards}",
        context_length=min(config.max_position_embeddings, cells),
        kv_cells=cells,
        vocab_size=model.vocab_size,
        capabilities=frozenset({Capability.FREE_POSITIONS}),
    )
