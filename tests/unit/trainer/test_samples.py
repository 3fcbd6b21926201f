"""Samples: what bears loss, both renderings, the twin, and truncation that cuts no block."""

from __future__ import annotations

import pytest
import torch

from multiverse_shared.errors import InvalidRequest
from multiverse_trainer.attention.example import Example
from multiverse_trainer.attention.masks import dense_mask
from multiverse_trainer.attention.spans import runs_of, span_table
from multiverse_trainer.data.files import Reject
from multiverse_trainer.data.record import parse_record
from multiverse_trainer.data.rendering import Rendering
from multiverse_trainer.data.samples import SampleSet
from tests.unit.trainer.rows import generated, renderer, row, samples, vocabulary


def text(example: Example, *, learned: bool = False) -> str:
    ids = example.ids[example.targets] if learned else example.ids
    return vocabulary().tokenizer.decode(ids.tolist())


def test_the_prompt_and_what_the_system_writes_bear_no_loss() -> None:
    example = samples([row()]).example(0, parallel=True)
    assert text(example) == (
        "<bos>suma:1,b:2,?inparallelmax<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline>"
        "</Goal><Path>1:a:1=1</Path><Path>2:b:2=2</Path><Conclusion>sum</Conclusion></Parallel>min"
        "#3<eos>"
    )
    assert text(example, learned=True) == (
        "max<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline></Goal>"
        "a:1=1</Path>b:2=2</Path>sum</Conclusion></Parallel>min#3<eos>"
    )


def test_renderings_differ_in_suffix_and_tags_only() -> None:
    sequential = samples([row()]).example(0, parallel=False)
    assert text(sequential) == "<bos>suma:1,b:2,?a:1=1;b:2=2;sum#3<eos>"
    twin = samples([row()], rendering="twin").example(0, parallel=True)
    assert text(twin) == "<bos>suma:1,b:2,?maxaba:1=1b:2=2summin#3<eos>"


def test_every_label_is_predicted_by_a_token_that_it_sees_and_stands_behind() -> None:
    made = samples(generated(60))
    for index in range(60):
        example = made.example(index, parallel=True)
        seen = mask_of(example)
        for source, target in zip(example.sources, example.targets, strict=True):
            assert seen[target, source]
            assert example.positions[target] == example.positions[source] + 1


def mask_of(example: Example) -> torch.Tensor:
    first, last = span_table([runs_of(example.segments)], len(example))
    return dense_mask(torch.from_numpy(first), torch.from_numpy(last))[0, 0]


def test_truncation_keeps_blocks_whole_at_every_length() -> None:
    whole = samples([row()]).example(0, parallel=True)
    marks = text(whole).index("<Parallel>"), text(whole).index("</Parallel>")
    seen = set()
    for size in range(14, len(whole) + 1):
        example = samples([row()], max_tokens=size).example(0, parallel=True)
        got = text(example)
        assert len(example) <= size
        assert text(whole).startswith(got)
        assert not marks[0] < len(got) < marks[1] + len("</Parallel>"), got
        seen.add(got)
    assert text(whole) in seen
    assert len(seen) > 3


def test_a_sample_that_nothing_is_left_of_is_rejected_by_its_id() -> None:
    made = samples([row(), row(id="long", prompt="sum" * 50)], max_tokens=40)
    assert [(r.id, "40 tokens" in r.reason) for r in made.rejects] == [("long", True)]
    assert made.cut == 1


def test_a_data_set_without_a_usable_record_says_why() -> None:
    made = SampleSet(renderer(), Rendering.PARALLEL, 100)
    with pytest.raises(InvalidRequest, match=r"2 rejects: bad"):
        made.read([Reject("f", 1, "x", "bad"), parse_record(row(dialect="npr"))])
    assert made.rejects[1].reason == "dialect: 'npr', not 'multiverse' of this run"


MARKED = 'max<promise topic="x" tokens="20"/><async>a:1</async>b:2<sync/>min'


@pytest.mark.parametrize("dialect", ["pasta", "pasta-reserve"])
def test_marked_text_of_pasta_is_learned_by_the_token_that_is_followed(dialect: str) -> None:
    made = samples([row(dialect=dialect, tree=None, markup=MARKED)])
    example = made.example(0, parallel=True)
    tokenizer = vocabulary(dialect).tokenizer
    pairs = [
        (tokenizer.decode([int(example.ids[s])]), tokenizer.decode([int(example.ids[t])]))
        for s, t in zip(example.sources, example.targets, strict=True)
    ]
    assert ("/>", "b") in pairs  # the main thread goes on behind the promise
    assert ("</async>", "b") not in pairs
    assert ("<async>", "a") in pairs
    assert not any(target == "<async>" for _, target in pairs)
    at = example.ids.tolist().index(tokenizer.token_id("<sync/>"))
    # Ten, the least: the tiny vocabulary has no quotes, so that the promise has no number.
    start = 10 if dialect == "pasta-reserve" else 0
    promised = example.ids.tolist().index(tokenizer.token_id("/>"))
    assert example.positions[at] == example.positions[promised] + 1 + start + 3


def test_ill_formed_markup_is_rejected() -> None:
    good = row(dialect="pasta", tree=None, markup=MARKED)
    made = samples([good, {**good, "id": "open", "markup": MARKED.replace("<sync/>", "")}])
    assert [reject.id for reject in made.rejects] == ["open"]
