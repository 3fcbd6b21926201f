"""The hooks: where the plugin takes part in an SGLang scheduler's step.

Each is short and hands over to `Host`. `TARGETS` says what they rely on; `self_check` verifies
it, because SGLang only logs a hook that it could not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.layers.logits_processor import LogitsMetadata
from sglang.srt.managers.schedule_batch import FINISH_LENGTH, FINISH_MATCHED_TOKEN
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from multiverse_shared.errors import MultiverseError
from multiverse_worker.engines.sglang.cache import stage_of
from multiverse_worker.engines.sglang.channel import refuse
from multiverse_worker.engines.sglang.draws import draw, told
from multiverse_worker.engines.sglang.host import Host
from multiverse_worker.engines.sglang.requests import plan, shift_positions

_SCHEDULER = "sglang.srt.managers.scheduler.Scheduler."
_BATCH = "sglang.srt.managers.schedule_batch."
_host: Host | None = None  # one scheduler per process


def attach(info: dict[str, Any], scheduler: Any) -> dict[str, Any]:
    """The scheduler is complete: check it and join it, or refuse to serve."""
    from multiverse_worker.engines.sglang.self_check import check_hooks, check_scheduler

    global _host
    try:
        check_hooks()
        check_scheduler(scheduler)
        host = Host(scheduler)
    except MultiverseError as error:
        refuse(error)  # the worker ends SGLang; an exception here would end the worker first
        return info
    _host = host
    host.say_hello()
    return info


def take_commands(aborts: list[Any], scheduler: Any) -> list[Any]:
    """On the first rank: commands go the way of SGLang's own, to all ranks."""
    return [*aborts, *_host.poll()] if _host else aborts


def order_queue(result: None, policy: Any, waiting_queue: list[Any], *args: Any, **kw: Any) -> None:
    if _host:
        waiting_queue.sort(key=lambda request: _host.branches.order(stage_of(request)))


def after_planning(next_batch: Any, scheduler: Any, *args: Any, **kwargs: Any) -> Any:
    if _host:
        idle = next_batch.batch_to_run is None and next_batch.running_batch.is_empty()
        _host.after_planning(idle and scheduler.chunked_req is None)
    return next_batch


def check_decode_memory(original: Callable[..., bool], batch: Any, *args: Any, **kw: Any) -> bool:
    """Before SGLang retracts a request, the young give up their leases."""
    chosen = args[0] if args else kw.get("selected_indices")
    fits = original(batch, *args, **kw)
    requests = batch.reqs if chosen is None else [batch.reqs[at] for at in chosen]
    while not fits and _host and any(stage_of(request) for request in requests):
        oldest = min(_host.branches.order(stage_of(request)) for request in requests)
        if not _host.relieve(oldest, alone=len(requests) == 1):
            break
        fits = original(batch, *args, **kw)
    return fits


def retraction_order(original: Callable[[Any], list[int]], requests: Any) -> list[int]:
    """The youngest is retracted first: SGLang takes from the end."""
    order = original(requests)
    if _host:
        order.sort(key=lambda at: _host.branches.order(stage_of(requests[at])))
    return order


def place(forward_batch: Any, cls: type, batch: Any, *args: Any, **kwargs: Any) -> Any:
    """Positions, and what is to be drawn."""
    if _host:
        idle = forward_batch.forward_mode.is_idle()
        _host.planned(None if idle else plan(batch, forward_batch))
        forward_batch.multiverse = _host.plan
        if _host.plan:
            shift_positions(_host.plan, forward_batch)
    return forward_batch


def sample(original: Callable[..., Any], runner: Any, output: Any, forward_batch: Any) -> Any:
    """Branches draw from the logits as they are, by (seed, path, index)."""
    planned = getattr(forward_batch, "multiverse", None)
    if planned is None:
        return original(runner, output, forward_batch)
    if _host and _host.observing and forward_batch.forward_mode.is_decode():
        _host.saw(planned, output.next_token_logits)
    logits = output.next_token_logits
    plain = any(stage is None for stage in planned.stages)
    if plain:
        logits = logits.clone()  # SGLang's sampler works in place
        ids = original(runner, output, forward_batch)
    else:
        ids = torch.zeros(len(planned.stages), dtype=torch.int64, device=logits.device)
    if planned.draws:
        drawn = draw(logits, forward_batch.input_ids, list(planned.draws))
        rows = [d.row for d in planned.draws]
        ids[torch.tensor(rows, device=ids.device)] = drawn.to(ids.dtype)
        output.multiverse_told = told(logits, list(planned.draws), drawn)
    return ids


def observe(
    original: Callable[..., Any],
    processor: Any,
    input_ids: Any,
    hidden_states: Any,
    lm_head: Any,
    metadata: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Only when logits are wanted (in tests): those of every token of an extend."""
    # SGLang may run a copy of the batch, so the plan is that of the step under way.
    planned = _host.plan if _host and _host.observing else None
    if _host and planned and not metadata.forward_mode.is_decode():
        of_all = LogitsMetadata.from_forward_batch(metadata)
        logits = processor._get_logits(hidden_states, lm_head, of_all, use_logits_buffer=False)
        _host.saw(planned, logits)
    return original(processor, input_ids, hidden_states, lm_head, metadata, *args, **kwargs)


def process_result(original: Callable[..., Any], scheduler: Any, batch: Any, result: Any) -> Any:
    if _host:
        _host.before_result(batch, result)
    out = original(scheduler, batch, result)
    if _host:
        _host.after_result(batch)
    return out


def finish_state(original: Callable[..., None], request: Any, accepted: int = 1) -> None:
    """A stage ends at its stops and at its length; nothing else ends it."""
    stage = stage_of(request)
    if stage is None or request.finished() or request.to_finish or not _host:
        original(request, accepted)
        return
    if not stage.decodes:
        request.finished_reason, request.finished_len = FINISH_LENGTH(length=0), 0
        return
    token = request.output_ids[-1]
    if _host.branches.sampled(stage, token, _host.told_of(request)):
        request.finished_reason = FINISH_MATCHED_TOKEN(matched=token)
        request.finished_len = len(request.output_ids)


def keep_to_ourselves(streamer: Any, requests: list[Any], *args: Any, **kwargs: Any) -> Any:
    """SGLang's tokenizer knows nothing of branches."""
    plain = [request for request in requests if stage_of(request) is None]
    return (streamer, plain, *args), kwargs


def take_back_aborted(
    original: Callable[..., None], scheduler: Any, abort: Any, request: Any
) -> None:
    stage = stage_of(request)
    if stage is None:
        original(scheduler, abort, request)
    elif _host:
        _host.branches.dropped(stage)


TARGETS: tuple[tuple[str, HookType, Callable[..., Any], tuple[str, ...]], ...] = (
    (_SCHEDULER + "get_init_info", HookType.AFTER, attach, ("self",)),
    (_SCHEDULER + "_poll_timeout_aborts", HookType.AFTER, take_commands, ("self",)),
    (
        _SCHEDULER + "get_next_batch_to_run",
        HookType.AFTER,
        after_planning,
        ("self", "running_batch", "last_batch"),
    ),
    (
        _SCHEDULER + "process_batch_result",
        HookType.AROUND,
        process_result,
        ("self", "batch", "result"),
    ),
    (
        _SCHEDULER + "send_abort_output",
        HookType.AROUND,
        take_back_aborted,
        ("self", "abort_req", "req"),
    ),
    (
        "sglang.srt.managers.schedule_policy.SchedulePolicy.calc_priority",
        HookType.AFTER,
        order_queue,
        ("self", "waiting_queue", "running_batch", "processed_tokens"),
    ),
    (
        _BATCH + "ScheduleBatch.check_decode_mem",
        HookType.AROUND,
        check_decode_memory,
        ("self", "selected_indices"),
    ),
    (
        _BATCH + "ScheduleBatch._get_decode_retraction_order",
        HookType.AROUND,
        retraction_order,
        ("reqs",),
    ),
    (
        _BATCH + "Req.update_finish_state",
        HookType.AROUND,
        finish_state,
        ("self", "new_accepted_len"),
    ),
    (
        "sglang.srt.model_executor.forward_batch_info.ForwardBatch.init_new",
        HookType.AFTER,
        place,
        ("cls", "batch", "model_runner"),
    ),
    (
        "sglang.srt.model_executor.model_runner.ModelRunner.sample",
        HookType.AROUND,
        sample,
        ("self", "logits_output", "forward_batch"),
    ),
    (
        "sglang.srt.layers.logits_processor.LogitsProcessor.forward",
        HookType.AROUND,
        observe,
        ("self", "input_ids", "hidden_states", "lm_head", "logits_metadata"),
    ),
    (
        "sglang.srt.managers.scheduler_components.output_streamer."
        "SchedulerOutputStreamer._stream_output_generation",
        HookType.BEFORE,
        keep_to_ourselves,
        ("self", "reqs"),
    ),
)


def register_all() -> None:
    for target, kind, hook, _ in TARGETS:
        HookRegistry.register(target, hook, kind)
