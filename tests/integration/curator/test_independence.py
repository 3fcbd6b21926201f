"""What a model sees of paths that lean on each other, against transformers' own loss."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from multiverse_curator.checks.independence import LikelihoodIndependence
from multiverse_shared.encode import TextBlock

MODEL = Path(__file__).parents[3] / "models" / "multiverse-tiny"


@pytest.fixture(scope="module")
def independence() -> LikelihoodIndependence:
    return LikelihoodIndependence(MODEL)


def test_the_linear_layout_scores_as_a_plain_forward_does(
    independence: LikelihoodIndependence,
) -> None:
    block = TextBlock(("a", "b"), (("a:7+5=12",), ("b:4+9=13",)), ("sum",))
    first, second = independence.measure("sum", ("x", block))
    model, tokenizer = independence._model, independence._tokenizer
    texts = ["\na\na:7+5=12", "\nb\nb:4+9=13"]
    prefix = tokenizer.encode("sum\nx\n")
    ids = [prefix, *(tokenizer.encode(text) for text in texts)]
    flat = [token for part in ids for token in part]
    with torch.inference_mode():
        plain = model(input_ids=torch.tensor([flat])).logits[0].log_softmax(-1)
        alone = model(input_ids=torch.tensor([[*prefix, *ids[2]]])).logits[0].log_softmax(-1)

    def mean(scores: torch.Tensor, tokens: list[int], start: int, size: int) -> float:
        places = range(start + 1, start + size)
        return sum(scores[at - 1, tokens[at]].item() for at in places) / (size - 1)

    at = len(prefix) + len(ids[1])
    assert second["linear"] == pytest.approx(mean(plain, flat, at, len(ids[2])), abs=1e-3)
    hidden = mean(alone, [*prefix, *ids[2]], len(prefix), len(ids[2]))
    assert second["stitched"] == pytest.approx(hidden, abs=1e-3)
    assert first["gain"] == 0
    assert second["gain"] == pytest.approx(second["linear"] - second["stitched"], abs=2e-4)


def test_inner_blocks_are_measured_too(independence: LikelihoodIndependence) -> None:
    inner = TextBlock(("a", "b"), (("a:1+2=3",), ("b:1+3=4",)), ("sum",))
    outer = TextBlock(("A", "B"), ((inner,), ("c:5",)), ("max",))
    found = independence.measure("max", (outer,))
    assert [(path["block"], path["path"]) for path in found] == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_blocks_that_are_too_long_are_passed_over() -> None:
    short = LikelihoodIndependence(MODEL, most_tokens=5)
    block = TextBlock(("a", "b"), (("a:7+5=12",), ("b:4+9=13",)), ("sum",))
    assert short.measure("sum", (block,)) == []
