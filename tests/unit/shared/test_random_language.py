"""Whatever tokens come, in whatever dialect: no exception, no limit broken, no token lost.

`make bench-language` runs the same examples by the hundred thousand.
"""

from __future__ import annotations

import pytest

from multiverse_shared.grammar import Grammar
from tests.unit.shared.random_language import Example, Tally
from tests.unit.shared.random_writers import DIALECTS, Vocabulary, grammar_of

EXAMPLES = 2000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_random_tokens_are_read_and_served_within_every_limit(dialect: str) -> None:
    tally = Tally()
    examples = -(-EXAMPLES // len(DIALECTS))
    for number in range(examples):
        Example(dialect, f"test {number}").check(tally)
    assert tally.tokens > 20 * examples
    assert tally.blocks > examples // 4, "the examples fork"


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_shared_vocabulary_carries_the_tags_of_every_dialect(
    dialect: str, pieces: bool
) -> None:
    grammar: Grammar = grammar_of(dialect, pieces)
    sizes = {len(ids) for ids in grammar.tags.values()}
    assert min(sizes) > 1 if pieces else sizes == {1}
    for tag, ids in grammar.tags.items():
        assert Vocabulary(pieces).decode(ids) == grammar.dialect.tags[tag]
