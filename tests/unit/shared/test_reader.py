"""Reading answers back: real outputs of a 32B model, and random token sequences."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import TextBlock, encode
from multiverse_shared.grammar import Grammar
from multiverse_shared.limits import Limits
from multiverse_shared.machine import Irregular
from multiverse_shared.reader import read
from multiverse_shared.reading import Incomplete, Reading
from multiverse_shared.tree import Block, Context, linearise, normalise

OUTPUTS = Path(__file__).parents[2] / "data" / "multiverse_outputs.jsonl.gz"
DIALECTS = ("multiverse", "multiverse-qwen", "npr", "threadweaver")


def grammar_of(dialect: str) -> Grammar:
    loaded = load_dialect(dialect)
    return Grammar.bind(loaded, CharacterTokenizer(loaded))


def read_text(text: str, grammar: Grammar) -> Reading:
    return read(grammar.tokenizer.encode_trusted(text), grammar, Limits())  # type: ignore[attr-defined]


def text_of(reading: Reading, grammar: Grammar) -> str:
    return grammar.tokenizer.decode(linearise(reading.context))


def shape(context: Context, depth: int = 1) -> Counter[tuple[int, int]]:
    """(depth, paths) of every block."""
    found: Counter[tuple[int, int]] = Counter()
    for item in context:
        if isinstance(item, Block):
            found[depth, len(item.paths)] += 1
            for path in item.paths:
                found += shape(path, depth + 1)
    return found


def counted(text: str) -> Counter[tuple[int, int]]:
    """The same from the places of tags alone: where blocks open, and paths inside them."""
    places = sorted(
        (at, tag)
        for tag in ("<Parallel>", "</Parallel>", "<Path>")
        for at in range(len(text))
        if text.startswith(tag, at)
    )
    found: Counter[tuple[int, int]] = Counter()
    open_blocks: list[int] = []
    for _, tag in places:
        if tag == "<Parallel>":
            open_blocks.append(0)
        elif tag == "<Path>":
            open_blocks[-1] += 1
        else:
            found[len(open_blocks), open_blocks.pop()] += 1
    assert not open_blocks
    return found


@pytest.fixture(scope="module")
def outputs() -> list[str]:
    with gzip.open(OUTPUTS, "rt", encoding="utf-8") as file:
        return [json.loads(line)["output"] for line in file]


def test_real_outputs_come_back_byte_for_byte_and_clean_ones_have_the_counted_blocks(
    outputs: list[str],
) -> None:
    grammar = grammar_of("multiverse-qwen")
    clean = 0
    for output in outputs:
        reading = read_text(output, grammar)
        assert text_of(reading, grammar) == output
        if not reading.irregular:
            clean += 1
            assert shape(reading.context) == counted(output)
    assert (len(outputs), clean) == (135, 115)


PIECES = st.lists(
    st.sampled_from(
        (
            *("<Parallel>", "</Parallel>", "<Goal>", "</Goal>", "<Outline>", "</Outline>"),
            *("<Path>", "</Path>", "<Conclusion>", "</Conclusion>", "a", "1:", "<step>", "<"),
        )
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(PIECES, st.sampled_from(DIALECTS))
def test_whatever_is_read_comes_back(pieces: list[str], dialect: str) -> None:
    grammar, text = grammar_of(dialect), "".join(pieces)
    assert text_of(read_text(text, grammar), grammar) == text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_serving_would_have_made_is_read_as_the_same_tree(dialect: str) -> None:
    grammar = grammar_of(dialect)
    inner = TextBlock(("p", "q"), (("pp",), ("qq",)), ("both",))
    tree = ("say ", TextBlock(("a", "b"), (("x", inner, "y"), ("z",)), ("so",)), " end")
    context = encode(tree, grammar)
    reading = read(linearise(context), grammar, Limits())
    assert not reading.irregular
    assert normalise(reading.context) == normalise(context)


@pytest.mark.parametrize(
    ("text", "irregular"),
    [
        ("a</Path>b", Irregular.STRAY_TAG),
        ("the <Path> Structure", Irregular.STRAY_TAG),
        ("</Goal>", Irregular.STRAY_TAG),
        ("<Goal><Outline>1:</Outline></Goal><Path>x</Path><Conclusion>", "plan_without_block"),
        ("<Parallel><Goal></Goal><Conclusion></Conclusion></Parallel>", Irregular.NO_OUTLINES),
        ("<Parallel><Goal><Outline>1:</Outline></Goal><Path>x", Incomplete.PATH_WITHOUT_END),
        (
            "<Parallel><Goal><Outline>1:</Outline></Goal><Path>x</Path></Parallel>y",
            Incomplete.NO_CONCLUSION,
        ),
        (
            "<Parallel><Goal><Outline>1:</Outline><Outline>2:</Outline></Goal><Path>x</Path>"
            "<Conclusion>z</Conclusion></Parallel>",
            Incomplete.FEWER_PATHS,
        ),
        (
            "<Parallel><Goal>" + "<Outline>1:</Outline>" * 17 + "</Goal>",
            Incomplete.RUNAWAY,
        ),
    ],
)
def test_what_breaks_the_grammar_is_counted_by_its_class(text: str, irregular: str) -> None:
    grammar = grammar_of("multiverse")
    reading = read_text(text, grammar)
    assert reading.irregular[irregular] == 1
    assert text_of(reading, grammar) == text
