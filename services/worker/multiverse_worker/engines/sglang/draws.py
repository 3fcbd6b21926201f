"""Draws the next tokens of a batch from its logits, on whatever device they are.

The same rules, draws and reports as `logit_rules`, `sampling` and `logprobs` make one row at a
time: functions of the logits, of the tokens before and of (seed, path, index), so they depend on
no batch. Knows tensors; must not know branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from multiverse_worker.contract import Ids, Sampling, TopLogprobs
from multiverse_worker.logit_rules import ends
from multiverse_worker.sampling import uniform


@dataclass(frozen=True, slots=True)
class Draw:
    """One row to draw from."""

    row: int  # of the logits
    sampling: Sampling
    index: int  # of the token among those that the branch samples
    recent: Ids = ()  # what it has taken last, as far as that has reached the host
    counts: Mapping[int, int] | None = None  # how often ids stand in what penalties count
    last_row: int | None = None  # where the last taken token is, when it has not: row of inputs
    forced: int | None = None  # take this token


def draw(logits_bv: torch.Tensor, inputs: torch.Tensor, draws: list[Draw]) -> torch.Tensor:
    """[len(draws)] token ids. `inputs` are the ids that the step computed."""
    device = logits_bv.device
    logits_dv = logits_bv[torch.tensor([d.row for d in draws], device=device)].float()
    for at, one in enumerate(draws):
        if one.counts is not None:
            _penalise(logits_dv[at], inputs, one, one.counts)
    _bias(logits_dv, draws)
    _ban(logits_dv, inputs, draws)
    ids = logits_dv.argmax(dim=-1)
    sampled = [at for at, d in enumerate(draws) if d.sampling.temperature > 0]
    if sampled:
        chosen = torch.tensor(sampled, device=device)
        ids[chosen] = _sample(logits_dv[chosen], [draws[at] for at in sampled])
    forced = [(at, d.forced) for at, d in enumerate(draws) if d.forced is not None]
    if forced:
        places, tokens = zip(*forced, strict=True)
        ids[torch.tensor(places, device=device)] = torch.tensor(tokens, device=device)
    return ids


def _penalise(
    row_v: torch.Tensor, inputs: torch.Tensor, one: Draw, counts: Mapping[int, int]
) -> None:
    """In place, one row: few requests ask for penalties."""
    times_v = torch.zeros(len(row_v), dtype=torch.float64, device=row_v.device)
    if counts:
        seen = torch.tensor(list(counts), device=row_v.device)
        times_v[seen] = torch.tensor(list(counts.values()), dtype=torch.float64).to(row_v.device)
    if one.last_row is not None:
        times_v[inputs[one.last_row].long()] += 1
    sampling, values_v = one.sampling, row_v.double()
    repetition = sampling.repetition_penalty
    values_v = torch.where(values_v > 0, values_v / repetition, values_v * repetition)
    values_v -= sampling.frequency_penalty * times_v + sampling.presence_penalty
    row_v.copy_(torch.where(times_v > 0, values_v, row_v.double()))


def _bias(logits_dv: torch.Tensor, draws: list[Draw]) -> None:
    entries = [
        (at, token, bias) for at, d in enumerate(draws) for token, bias in d.sampling.logit_bias
    ]
    if entries:
        rows, ids, biases = zip(*entries, strict=True)
        device = logits_dv.device
        places = (torch.tensor(rows, device=device), torch.tensor(ids, device=device))
        logits_dv[places] += torch.tensor(biases, dtype=torch.float32, device=device)


def _ban(logits_dv: torch.Tensor, inputs: torch.Tensor, draws: list[Draw]) -> None:
    """Leave out the last id of each banned sequence that what was taken leads up to."""
    known: list[tuple[int, int]] = []
    pending: list[tuple[int, int, int, int]] = []  # row of draws, banned, row of inputs, before it
    for at, d in enumerate(draws):
        for banned in d.sampling.banned:
            before, last = banned[:-1], banned[-1]
            if not before:
                known.append((at, last))
            elif d.last_row is None:
                if ends(d.recent, before):
                    known.append((at, last))
            elif ends(d.recent, before[:-1]):
                pending.append((at, last, d.last_row, before[-1]))
    if known:
        rows, ids = torch.tensor(known, device=logits_dv.device).T
        logits_dv[rows, ids] = -torch.inf
    for at, last, place, before_id in pending:
        led = inputs[place] == before_id
        logits_dv[at, last] = torch.where(led, -torch.inf, logits_dv[at, last])


def _sample(logits_dv: torch.Tensor, draws: list[Draw]) -> torch.Tensor:
    """See `sampling` for the order of truncations; ties at a border go to the lower id."""
    device, vocab = logits_dv.device, logits_dv.shape[-1]

    def column(values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64, device=device)[:, None]

    peak = logits_dv.amax(dim=-1, keepdim=True)
    temperature = column([d.sampling.temperature for d in draws])
    weights_dv = ((logits_dv.double() - peak.double()) / temperature).exp()
    settings = [d.sampling for d in draws]
    cut = [at for at, s in enumerate(settings) if 0 < s.top_k < vocab or 0 < s.top_p < 1]
    if cut:
        chosen = torch.tensor(cut, device=device)
        left = _truncate(logits_dv[chosen], weights_dv[chosen], [settings[at] for at in cut])
        weights_dv[chosen] = left
    least = column([s.min_p for s in settings])
    weights_dv = torch.where(weights_dv >= least, weights_dv, 0.0)
    sums_dv = weights_dv.cumsum(dim=-1)
    share = column(
        [uniform(d.sampling.seed, d.sampling.stream, d.sampling.draws + d.index) for d in draws]
    )
    at = torch.searchsorted(sums_dv, share * sums_dv[:, -1:], right=True)
    possible = torch.where(weights_dv > 0, torch.arange(vocab, device=device), -1)
    return torch.minimum(at, possible.amax(dim=-1, keepdim=True)).squeeze(-1)


def _truncate(
    logits_dv: torch.Tensor, weights_dv: torch.Tensor, settings: list[Sampling]
) -> torch.Tensor:
    """The weights that top-k and top-p leave, in the order of ids; the others are 0."""
    device, vocab = logits_dv.device, logits_dv.shape[-1]
    order_dv = logits_dv.sort(dim=-1, descending=True, stable=True).indices
    ranked_dv = weights_dv.gather(-1, order_dv)
    keep = [s.top_k if 0 < s.top_k < vocab else vocab for s in settings]
    ranks = torch.arange(vocab, device=device)[None]
    ranked_dv = torch.where(ranks < torch.tensor(keep, device=device)[:, None], ranked_dv, 0.0)
    sums_dv = ranked_dv.cumsum(dim=-1)
    shares = [s.top_p if 0 < s.top_p < 1 else torch.inf for s in settings]
    target = torch.tensor(shares, dtype=torch.float64, device=device)[:, None] * sums_dv[:, -1:]
    last = torch.searchsorted(sums_dv, target)
    ranked_dv = torch.where(ranks <= last, ranked_dv, 0.0)
    return torch.zeros_like(weights_dv).scatter_(-1, order_dv, ranked_dv)


@dataclass(frozen=True, slots=True)
class ToldRows:
    """Logprobs of what was drawn, still on the device."""

    places: list[int]  # rows of the batch
    own: torch.Tensor  # [rows]
    wanted: list[int]  # most probable ids that each row asked for
    top_values: torch.Tensor  # [rows, most wanted]
    top_ids: torch.Tensor

    def rows(self) -> Iterator[tuple[int, tuple[tuple[float, ...], tuple[TopLogprobs, ...]]]]:
        """By row of the batch: what an Update says."""
        own, values, ids = self.own.tolist(), self.top_values.tolist(), self.top_ids.tolist()
        for at, (place, number) in enumerate(zip(self.places, self.wanted, strict=True)):
            top = TopLogprobs(tuple(ids[at][:number]), tuple(values[at][:number]))
            yield place, ((own[at],), (top,) if number else ())


def told(logits_bv: torch.Tensor, draws: list[Draw], ids: torch.Tensor) -> ToldRows | None:
    """What is reported beside the drawn `ids`; None when nothing was asked for."""
    wanted = [(at, d) for at, d in enumerate(draws) if d.sampling.logprobs]
    if not wanted:
        return None
    device = logits_bv.device
    places = [d.row for _, d in wanted]
    chosen = logits_bv[torch.tensor(places, device=device)].double()
    logs_dv = chosen - chosen.logsumexp(dim=-1, keepdim=True)
    own = logs_dv.gather(-1, ids[torch.tensor([at for at, _ in wanted], device=device)][:, None])
    numbers = [d.sampling.top_logprobs for _, d in wanted]
    top = logs_dv.topk(min(max(numbers), logs_dv.shape[-1]), dim=-1)
    return ToldRows(places, own.squeeze(-1), numbers, top.values, top.indices)
