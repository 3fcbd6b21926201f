"""Context trees: normal form, linear order, counts."""

from __future__ import annotations

from hypothesis import given

from multiverse_shared.tree import Block, Context, Text, count, linearise, normalise, texts
from tests.unit.shared.strategies import few, trees

TREE: Context = (
    Text((1, 2)),
    Text((3,), written=True),
    Text(()),
    Block(((Text((4,), written=True), Text((5,))), (), (Text((6, 7)),))),
    Text((8,), written=True),
    Text((9,)),
)


def model_tokens(context: Context) -> list[int]:
    """What the model itself wrote, the slow way."""
    out: list[int] = []
    for item in context:
        if isinstance(item, Block):
            for path in item.paths:
                out += model_tokens(path)
        elif not item.written:
            out += item.ids
    return out


def test_the_linear_order_takes_the_paths_one_after_another() -> None:
    assert linearise(TREE) == (1, 2, 3, 4, 5, 6, 7, 8, 9)


def test_the_linear_order_without_the_system_is_what_the_model_wrote() -> None:
    assert linearise(TREE, written=False) == (1, 2, 5, 6, 7, 9)


def test_every_token_is_counted_once() -> None:
    assert count(TREE) == 9
    assert count(()) == 0


def test_the_normal_form_merges_texts_and_forgets_who_wrote_them() -> None:
    block = Block(((Text((4, 5)),), (), (Text((6, 7)),)))
    assert normalise(TREE) == (Text((1, 2, 3)), block, Text((8, 9)))


def test_the_normal_form_keeps_all_that_a_block_says_about_itself() -> None:
    block = Block(((Text((4,)),),), closed=False, path_offset=-1, join_offset=2)
    assert normalise((block,)) == (block,)


def test_texts_on_both_sides_of_an_empty_block_stay_apart() -> None:
    context = (Text((1,)), Block(((),)), Text((2,)))
    assert normalise(context) == context


@few
@given(trees())
def test_the_normal_form_has_the_same_tokens_and_is_its_own_normal_form(context: Context) -> None:
    normal = normalise(context)
    assert linearise(normal) == linearise(context)
    assert normalise(normal) == normal
    assert all(text.ids and not text.written for text in texts(normal))


@few
@given(trees())
def test_the_linear_order_agrees_with_counts_and_authors(context: Context) -> None:
    assert len(linearise(context)) == count(context)
    assert list(linearise(context, written=False)) == model_tokens(context)
