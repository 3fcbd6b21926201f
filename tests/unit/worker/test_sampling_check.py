"""Sampling that can't be done is refused by the name of its field."""

from __future__ import annotations

from typing import Any

import pytest

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.contract import Sampling
from multiverse_worker.sampling_check import check_sampling

VOCAB = 6
NAN, INF = float("nan"), float("inf")
ALL = tuple((token,) for token in range(VOCAB))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1.0),
        ("temperature", NAN),
        ("temperature", INF),
        ("top_p", 1.5),
        ("top_p", NAN),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("min_p", NAN),
        ("presence_penalty", INF),
        ("frequency_penalty", NAN),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.0),
        ("repetition_penalty", NAN),
        ("repetition_penalty", INF),
        ("logit_bias", ((0, INF),)),
        ("logit_bias", ((0, -INF),)),
        ("logit_bias", ((0, NAN),)),
        ("logit_bias", ((VOCAB, 1.0),)),
        ("logit_bias", ((-1, 1.0),)),
        ("top_logprobs", 3),
        ("banned", ((),)),
        ("banned", ALL),
        ("banned", (*ALL[:-1], (2, VOCAB - 1))),
        ("banned", (*ALL[:-2], (2, VOCAB - 2), (1, 2, VOCAB - 1))),
    ],
)
def test_a_wrong_value_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_sampling(Sampling(**{field: value}), VOCAB)
    assert refusal.value.field == f"sampling.{field}"


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(2.0, 0.5, 40, logprobs=True, top_logprobs=VOCAB + 9, min_p=1.0),
        Sampling(presence_penalty=-2, frequency_penalty=2, repetition_penalty=1e-6),
        Sampling(logit_bias=tuple((token, -1e6) for token in range(VOCAB))),
        Sampling(banned=ALL[:-1]),
        Sampling(banned=(*ALL[:-2], (2, VOCAB - 2), (1, VOCAB - 1))),
        Sampling(banned=(*ALL[:-1], *ALL[:-1])),
    ],
    ids=["none", "wide", "edges", "bias", "all but one", "never at one place", "twice"],
)
def test_what_leaves_an_id_to_sample_is_accepted(sampling: Sampling) -> None:
    check_sampling(sampling, VOCAB)
