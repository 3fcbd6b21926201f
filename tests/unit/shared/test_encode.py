"""A tree of text becomes the ids that serving would have made of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.dialect import Tag, load_dialect
from multiverse_shared.encode import TextBlock, TextTree, encode
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.interpreter import Interpreter
from multiverse_shared.limits import Limits
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Block, Context, Text, linearise, normalise, texts
from tests.unit.shared import vocabularies
from tests.unit.shared.fake_engine import run
from tests.unit.shared.stage import LONG_TEMPLATES, Script, Stage

INNER = TextBlock(("only one",), (("deep",),), ("done",))
TREE: TextTree = ("Hi ", TextBlock(("a", "b"), (("x",), ("y", INNER, "z")), ("so",)), " end")
PLENTY = Limits(
    max_total_tokens=1 << 20, max_path_tokens=1 << 18, max_goal_tokens=1 << 12, max_blocks=1 << 12
)
_tokenizers = [
    TextTokenizer(vocabularies.characters()),
    TextTokenizer(vocabularies.bytes_merged()),
]


def test_a_tree_is_told_with_its_tags_and_what_the_system_writes(stage: Stage) -> None:
    inner_plan = "<Parallel><Goal><Outline>1:only one</Outline></Goal>"
    inner = [inner_plan, [["«<Path>1:»", "deep", "</Path>"]], "«<Conclusion>»", "done"]
    assert stage.told(encode(TREE, stage.grammar)) == [
        "Hi ",
        "<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline></Goal>",
        [
            ["«<Path>1:»", "x", "</Path>"],
            ["«<Path>2:»", "y", *inner, "</Conclusion></Parallel>", "z", "</Path>"],
        ],
        "«<Conclusion>»",
        "so",
        "</Conclusion></Parallel>",
        " end",
    ]


def test_every_body_is_encoded_alone(bytes_merged: TextTokenizer) -> None:
    grammar = Grammar.bind(load_dialect("multiverse"), bytes_merged)
    whole = bytes_merged.encode("answer")
    assert encode(("ans", "wer"), grammar) == (
        Text(tuple(bytes_merged.encode("ans"))),
        Text(tuple(bytes_merged.encode("wer"))),
    )
    assert list(linearise(encode(("ans", "wer"), grammar))) != whole


def test_blocks_carry_the_rule_and_the_offsets_of_the_dialect() -> None:
    stage = Stage.build(**LONG_TEMPLATES)
    _, _, _, block, *_ = encode(TREE, stage.grammar)
    assert isinstance(block, Block)
    assert (block.rule, block.closed) == (stage.grammar.dialect.rule, True)
    assert (block.path_offset, block.join_offset) == (-1, -1)


@pytest.mark.parametrize(
    ("outlines", "paths"), [((), ()), (("a",), ()), (("a",), (("x",), ("y",)))]
)
def test_a_block_needs_as_many_outlines_as_paths(
    outlines: tuple[str, ...], paths: tuple[TextTree, ...]
) -> None:
    with pytest.raises(ValueError, match="as many outlines as paths"):
        TextBlock(outlines, paths, ())


# -- against serving ------------------------------------------------------------------------------

_bodies = st.lists(
    st.sampled_from([*vocabularies.TAGS, "a", "the answer", " 1:", "\n"]), max_size=3
).map("".join)


def _trees(depth: int) -> st.SearchStrategy[TextTree]:
    node: st.SearchStrategy[str | TextBlock] = _bodies
    if depth:
        inner = _trees(depth - 1)
        pairs = st.lists(st.tuples(_bodies, inner), min_size=1, max_size=2)
        node |= st.builds(
            lambda pairs, conclusion: TextBlock(*map(tuple, zip(*pairs, strict=True)), conclusion),
            pairs,
            inner,
        )
    return st.lists(node, max_size=2).map(tuple)


def bodies(tree: TextTree) -> Iterator[str]:
    for node in tree:
        if isinstance(node, str):
            yield node
        else:
            yield from node.outlines
            for inner in (*node.paths, node.conclusion):
                yield from bodies(inner)


def typed(tree: TextTree, path: str, grammar: Grammar, out: dict[str, list[int]]) -> None:
    """Add what the model itself writes in `path` and in the paths below it."""
    encode_body, tags = grammar.tokenizer.encode, grammar.tags
    ids = out.setdefault(path, [])
    for node in tree:
        if isinstance(node, str):
            ids += encode_body(node)
            continue
        ids += tags[Tag.BLOCK_OPEN] + tags[Tag.PLAN_OPEN]
        for number, outline in enumerate(node.outlines, 1):
            ids += [*tags[Tag.OUTLINE_OPEN], *encode_body(f"{number}:"), *encode_body(outline)]
            ids += tags[Tag.OUTLINE_CLOSE]
        ids += tags[Tag.PLAN_CLOSE]
        for inner in node.paths:
            name = f"{path}.{1 + sum(known.rpartition('.')[0] == path for known in out)}"
            typed(inner, name, grammar, out)
            out[name] += tags[Tag.PATH_CLOSE]
        typed(node.conclusion, path, grammar, out)
        ids += tags[Tag.JOIN_CLOSE] + tags[Tag.BLOCK_CLOSE]


def served(tree: TextTree, grammar: Grammar, eos: int) -> Context:
    """The answer of a model that writes the bodies and tags of `tree`."""
    paths: dict[str, list[int]] = {}
    typed(tree, "0", grammar, paths)
    script: dict[str, Ids] = {path: tuple(ids) for path, ids in paths.items()}
    return run(Interpreter(grammar, PLENTY, (Text((0,)),), [eos]), Script(script, eos)).context[1:]


def authors(context: Context) -> list[tuple[int, bool]]:
    return [(token, text.written) for text in texts(context) for token in text.ids]


@pytest.mark.parametrize("tokenizer", _tokenizers, ids=["characters", "bytes"])
@pytest.mark.parametrize("templates", [{}, LONG_TEMPLATES], ids=["short", "long"])
@settings(max_examples=20, deadline=None)
@given(tree=_trees(2))
def test_an_encoded_tree_is_what_serving_would_have_made(
    tokenizer: TextTokenizer, templates: dict[str, object], tree: TextTree
) -> None:
    dialect = Stage.build(**templates).grammar.dialect
    grammar = Grammar.bind(dialect, tokenizer)
    eos = tokenizer.token_id(vocabularies.EOS)
    assert eos is not None
    made = served(tree, grammar, eos)
    encoded = encode(tree, grammar)
    assert normalise(encoded) == normalise(made)
    assert authors(encoded) == authors(made)


@settings(max_examples=20, deadline=None)
@given(tree=_trees(1))
def test_tags_in_bodies_stay_text(tree: TextTree) -> None:
    for tokenizer in _tokenizers:
        grammar = Grammar.bind(load_dialect("multiverse"), tokenizer)
        ids = linearise(encode(tree, grammar))
        blocks = [node for node in tree if isinstance(node, TextBlock)]
        paths = sum(len(block.paths) for block in blocks)
        assert ids.count(*grammar.tags[Tag.BLOCK_OPEN]) == len(blocks)
        assert ids.count(*grammar.tags[Tag.PATH_OPEN]) == paths
        assert ids.count(*grammar.tags[Tag.PATH_CLOSE]) == paths
        spelled = "".join(bodies(tree))
        assert tokenizer.decode(ids).count("<Goal>") == len(blocks) + spelled.count("<Goal>")
