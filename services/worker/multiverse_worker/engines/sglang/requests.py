"""Between stages and SGLang's requests and batches: queueing, ending, positions, draws."""

from __future__ import annotations

import itertools
from array import array
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.managers.schedule_batch import FINISH_ABORT, Req
from sglang.srt.sampling.sampling_params import SamplingParams

from multiverse_worker.engines.sglang.cache import stage_of
from multiverse_worker.engines.sglang.draws import Draw
from multiverse_worker.engines.sglang.stage import Stage


class Requests:
    """The SGLang requests of one scheduler's stages."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._numbers = itertools.count()

    def submit(self, stage: Stage) -> None:
        """Queue a request for a stage. Its prefix is resident, so those ids don't matter."""
        start = stage.branch.start
        left = start.max_tokens - stage.first_draw if stage.decodes else 0
        parameters = SamplingParams(max_new_tokens=left, temperature=0.0)
        parameters.normalize(None)
        scheduler = self._scheduler
        request = Req(
            f"multiverse-{next(self._numbers):016x}",  # of one length: SGLang aborts by prefix
            None,
            array("q", (0,) * stage.parent.length + stage.ids),
            parameters,
            vocab_size=scheduler.model_config.vocab_size,
        )
        request.tokenizer = None
        request.logprob_start_len = -1
        request.skip_radix_cache_insert = True
        request.multiverse = stage
        stage.request = request
        scheduler.init_req_max_new_tokens(request)
        scheduler._add_request_to_queue(request)

    def withdraw(self, stage: Stage) -> None:
        """End the request of a stage whose branch has ended or starts again."""
        request, scheduler = stage.request, self._scheduler
        if stage in self.queued():
            scheduler.waiting_queue = [r for r in scheduler.waiting_queue if r is not request]
        elif scheduler.chunked_req is request:
            scheduler._pending_chunked_abort_req = request
        elif not request.finished():
            request.to_finish = FINISH_ABORT()

    def row(self, stage: Stage) -> torch.Tensor:
        """The slots of a request that runs, in linear order; longer than what it has computed."""
        row: torch.Tensor = self._scheduler.req_to_token_pool.req_to_token[
            stage.request.kv.req_pool_idx
        ]
        return row.long()

    def queued(self) -> set[Stage]:
        """The stages that SGLang has not begun, or has taken back."""
        return {stage for r in self._scheduler.waiting_queue if (stage := stage_of(r))}


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What a forward batch computes for branches."""

    stages: tuple[Stage | None, ...]  # of each sequence
    lengths: tuple[int, ...]  # of each sequence, behind this step
    widths: tuple[int, ...]  # tokens computed of each sequence
    draws: tuple[Draw, ...]

    @property
    def decoded(self) -> int:
        """Tokens computed for sequences that decode already."""
        return sum(
            stage is not None and stage.decodes and length > _prompt(stage)
            for stage, length in zip(self.stages, self.lengths, strict=True)
        )


def plan(batch: Any, forward_batch: Any) -> BatchPlan | None:
    """None when the batch has no branch in it."""
    stages = tuple(stage_of(request) for request in batch.reqs)
    if not any(stages):
        return None
    lengths = tuple(forward_batch.seq_lens_cpu.tolist())
    decode = forward_batch.forward_mode.is_decode()
    widths = (1,) * len(stages) if decode else tuple(batch.extend_lens)
    ends = itertools.accumulate(widths)
    draws = tuple(
        _draw(row, stage, length, end - 1)
        for row, (stage, length, end) in enumerate(zip(stages, lengths, ends, strict=True))
        if stage and stage.decodes and length >= _prompt(stage)
    )
    return BatchPlan(stages, lengths, widths, draws)


def _prompt(stage: Stage) -> int:
    return len(stage.request.origin_input_ids)


def _draw(row: int, stage: Stage, length: int, input_row: int) -> Draw:
    index = stage.first_draw + length - _prompt(stage)
    start, branch = stage.branch.start, stage.branch
    on_its_way = index > len(branch.sampled)  # the last token was sampled, but not processed yet
    forced = start.script[index] if index < len(start.script) else None
    last = input_row if on_its_way else None
    return Draw(row, start.sampling, index, branch.recent, branch.counts, last, forced)


def shift_positions(plan: BatchPlan, forward_batch: Any) -> None:
    """From indices in the row to positions in the context."""
    deltas = [stage.delta if stage else 0 for stage in plan.stages]
    if any(deltas):
        device = forward_batch.positions.device
        shifts = torch.tensor(deltas, dtype=forward_batch.positions.dtype, device=device)
        widths = torch.tensor(plan.widths, device=device)
        shift = torch.repeat_interleave(shifts, widths, output_size=sum(plan.widths))
        forward_batch.positions = forward_batch.positions - shift
