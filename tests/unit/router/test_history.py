"""Texts of earlier answers are read back into the trees that were served, or stay text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from multiverse_router.history import HistoryReader
from multiverse_router.settings import RouterSettings
from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import Dialect, load_dialect
from multiverse_shared.encode import TextBlock, TextTree, encode
from multiverse_shared.grammar import Grammar
from multiverse_shared.limits import Limits
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Block, Context, linearise, normalise
from tests.unit.shared import vocabularies
from tests.unit.shared.fake_engine import run
from tests.unit.shared.stage import LONG_TEMPLATES, Script, Stage
from tests.unit.shared.test_encode import typed as type_tree

LIMITS = Limits(max_paths=4, max_depth=3, max_blocks=40, max_goal_tokens=200)
_dialects = {name: load_dialect(name) for name in ("multiverse", "multiverse-qwen", "npr")}
_dialects["long"] = replace(_dialects["multiverse"], **LONG_TEMPLATES)
_dialects["threadweaver"] = load_dialect("threadweaver")
_clean = "<Parallel><Goal><Outline>1:a</Outline></Goal><Path>1:b</Path><Conclusion>c</Conclusion>"
CLEAN = f"x{_clean}</Parallel>y"


@cache
def grammar(name: str, tokenizer: str = "characters") -> Grammar:
    """`merging`: tags are special tokens; `spelling`: they are several ids each."""
    dialect: Dialect = _dialects[name]
    if tokenizer == "characters":
        return Grammar.bind(dialect, CharacterTokenizer(dialect))
    return Grammar.bind(dialect, _merging(vocabularies.TAGS if tokenizer == "merging" else ()))


@cache
def _merging(special: tuple[str, ...]) -> TextTokenizer:
    """Bodies run together with the templates around them, unless they are encoded apart."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[AddedToken(t, special=True, normalized=False) for t in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    lines = [f"{n}:{word}" for n in "123" for word in ("a", " 1:", "the answer", " so.")]
    tokenizer.train_from_iterator([f"\n{line}\n{line}\n\n" for line in lines] * 9, trainer)
    return TextTokenizer(tokenizer.to_str())


def read(
    text: str, name: str = "multiverse", limits: Limits = LIMITS, max_tokens: int = 10_000
) -> Context | None:
    return HistoryReader(grammar(name), limits, max_tokens).read(text)


# -- well-formed ----------------------------------------------------------------------------------

_bodies = st.lists(
    st.sampled_from(["a", "the answer", " 1:", "\n", "2.1:", "", " so.", "<", "</", "{label}"]),
    max_size=3,
).map("".join)


def _trees(levels: int) -> st.SearchStrategy[TextTree]:
    node: st.SearchStrategy[str | TextBlock] = _bodies
    if levels:
        inner = _trees(levels - 1)
        pairs = st.lists(st.tuples(_bodies, inner), min_size=1, max_size=3)
        node |= st.builds(
            lambda pairs, conclusion: TextBlock(*map(tuple, zip(*pairs, strict=True)), conclusion),
            pairs,
            inner,
        )
    # Two texts in a row were encoded apart, and the text between tags can't tell.
    return st.lists(node, max_size=3).map(
        lambda nodes: tuple(
            node
            for node, before in zip(nodes, [None, *nodes], strict=False)
            if not (isinstance(node, str) and isinstance(before, str))
        )
    )


@pytest.mark.parametrize(
    ("name", "tokenizer"),
    [
        ("multiverse", "characters"),
        ("multiverse", "merging"),
        ("multiverse-qwen", "merging"),
        ("multiverse-qwen", "spelling"),
        ("long", "merging"),
        ("npr", "characters"),
        ("threadweaver", "characters"),
    ],
)
@settings(max_examples=30, deadline=None)
@given(tree=_trees(2))
def test_the_text_of_a_served_answer_is_read_into_the_same_tree(
    name: str, tokenizer: str, tree: TextTree
) -> None:
    bound = grammar(name, tokenizer)
    served = encode(tree, bound)
    text = bound.tokenizer.decode(linearise(served))
    known = HistoryReader(bound, LIMITS, 10_000).read(text)
    if any(isinstance(node, TextBlock) for node in tree):
        assert known == normalise(served)
    else:
        assert known is None


def test_what_budgets_have_cut_short_is_its_tree_again_or_text() -> None:
    stage = Stage.build()
    block = TextBlock(("one", "two"), (("the first",), nested(2)), ("so",))
    typed: dict[str, list[int]] = {}
    type_tree((block, "then", block, "end"), "0", stage.grammar, typed)
    script = Script({path: tuple(ids) for path, ids in typed.items()}, stage.eos)
    kinds = []
    for tokens in range(20, 600, 8):
        answer = run(stage.interpreter(Limits(max_total_tokens=tokens)), script).context[1:]
        text = stage.tokenizer.decode(linearise(answer))
        known = HistoryReader(stage.grammar, Limits(), 10_000).read(text)
        assert known in (None, normalise(answer))
        kinds.append(known is None)
    assert 5 < sum(kinds) < len(kinds) - 5


def test_a_path_that_the_system_closed_without_a_separator_is_read() -> None:
    bound = grammar("multiverse-qwen")
    text = bound.tokenizer.decode(linearise(encode((TextBlock(("a",), (("b",),), ()),), bound)))
    forced = text.replace("b\n</Path>", "b</Path>")
    assert forced != text
    tree = read(forced, "multiverse-qwen")
    assert tree is not None
    assert bound.tokenizer.decode(linearise(tree)) == forced


# -- ill-formed -----------------------------------------------------------------------------------


def test_the_clean_answer_is_a_tree() -> None:
    tree = read(CLEAN)
    assert tree is not None
    assert [type(item) for item in tree].count(Block) == 1
    assert linearise(tree) == tuple(grammar("multiverse").tokenizer.encode_trusted(CLEAN))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<Parallel>", ""),
        ("</Parallel>", ""),
        ("<Goal>", ""),
        ("</Goal>", ""),
        ("</Goal>", "</Goal> "),
        ("</Goal>", "</Goal></Goal>"),
        ("</Outline>", ""),
        ("</Outline>", "</Outline><Outline>2:b</Outline>"),
        ("<Path>", ""),
        ("<Path>1:", "<Path>"),
        ("<Path>1:", "<Path>one:"),
        ("<Path>1:", "<Path> 1:"),
        ("</Path>", ""),
        ("</Path>", "</Path> "),
        ("</Path>", "</Path><Path>2:b</Path>"),
        ("<Conclusion>", ""),
        ("</Conclusion>", ""),
        ("x", "x</Path>"),
        ("b", "b<Outline>"),
        ("b", f"b{_clean}"),
        ("y", "y<Parallel>"),
        ("c</Conclusion></Parallel>y", ""),
        (CLEAN, "<Goal>"),
        (CLEAN, "</Goal>"),
        (CLEAN, CLEAN.upper()),
        (CLEAN, CLEAN.replace("<", "<\u200b")),
    ],
)
def test_one_place_that_breaks_the_grammar_makes_the_whole_text_plain(old: str, new: str) -> None:
    broken = CLEAN.replace(old, new, 1)
    assert broken != CLEAN
    assert read(broken) is None


_fragments = [*vocabularies.TAGS, "1:", "2:", "a", " ", "\n"]


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 32), edits=st.integers(0, 3))
def test_edited_answers_are_read_to_the_letter_or_not_at_all(seed: int, edits: int) -> None:
    rng = Random(seed)
    text = CLEAN + _clean + "</Parallel>"
    for _ in range(edits):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(_fragments) + text[at + rng.choice([0, 0, 1, 9]) :]
    tree = read(text)
    if tree is not None:
        assert grammar("multiverse").tokenizer.decode(linearise(tree)) == text
    assert tree is not None or edits


# -- limits ---------------------------------------------------------------------------------------


def text_of(tree: TextTree) -> str:
    bound = grammar("multiverse")
    return bound.tokenizer.decode(linearise(encode(tree, bound)))


def nested(levels: int) -> TextTree:
    inner: TextTree = nested(levels - 1) if levels > 1 else ("x",)
    return (TextBlock(("a",), (inner,), ("so",)),)


def wide(paths: int) -> TextTree:
    return (TextBlock(("a",) * paths, (("x",),) * paths, ()),)


@pytest.mark.parametrize(
    ("limit", "allowed", "too_much"),
    [
        ({"max_depth": 2}, nested(2), nested(3)),
        ({"max_depth": 16, "max_blocks": 16}, nested(16), nested(17)),
        ({"max_paths": 3}, wide(3), wide(4)),
        ({"max_blocks": 2}, nested(1) * 2, nested(1) * 3),
        (
            {"max_goal_tokens": 24},
            (TextBlock(("a" * 20,), ((),), ()),),
            (TextBlock(("a" * 22,), ((),), ()),),
        ),
    ],
    ids=["depth", "deep", "paths", "blocks", "plan"],
)
def test_what_breaks_a_limit_is_text(
    limit: dict[str, int], allowed: TextTree, too_much: TextTree
) -> None:
    limits = replace(LIMITS, **limit)
    assert read(text_of(allowed), limits=limits) is not None
    assert read(text_of(too_much), limits=limits) is None


def test_a_text_longer_than_any_prompt_is_not_read() -> None:
    tokens = len(grammar("multiverse").tokenizer.encode_trusted(CLEAN))
    assert read(CLEAN, max_tokens=tokens) is not None
    assert read(CLEAN + "y", max_tokens=tokens) is None


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "</Path>" * 300_000 + "</Goal>",
        "<Parallel><Goal><Outline>" + "a" * 2_000_000 + "</Outline></Goal>",
        "<Parallel><Goal></Goal><Conclusion>" * 60_000,
        "<Parallel><Goal><Outline>1:</Outline></Goal><Path>1:" * 1_000,
        CLEAN * 30_000,
    ],
    ids=["stray tags", "one outline", "never closed", "deep", "many blocks"],
)
def test_texts_of_megabytes_are_not_read_for_long(text: str) -> None:
    assert read(text, limits=RouterSettings().largest_limits, max_tokens=50_000) is None
