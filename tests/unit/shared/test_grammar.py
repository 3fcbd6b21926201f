"""A dialect bound to a tokenizer."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from multiverse_shared.dialect import Tag, load_dialect
from multiverse_shared.errors import InvalidDialect
from multiverse_shared.grammar import Grammar
from multiverse_shared.tokenizer import TextTokenizer
from tests.unit.shared import vocabularies

DIALECT = load_dialect("multiverse")


def test_tags_are_the_special_tokens_of_the_tokenizer(tokenizer: TextTokenizer) -> None:
    grammar = Grammar.bind(DIALECT, tokenizer)
    for tag, spelling in DIALECT.tags.items():
        assert grammar.tags[tag] == (tokenizer.token_id(spelling),)
        assert grammar.tag_of[grammar.tags[tag]] is tag
    assert len(grammar.tag_of) == len(DIALECT.tags)
    assert not grammar.beginnings


def test_a_tag_without_a_token_is_the_sequence_that_spells_it_alone() -> None:
    tokenizer = TextTokenizer(vocabularies.spelled())
    grammar = Grammar.bind(DIALECT, tokenizer)
    assert grammar.tags[Tag.PATH_CLOSE] == tuple(tokenizer.encode("</Path>"))
    assert len(grammar.tags[Tag.PATH_CLOSE]) == len("</Path>")
    assert grammar.path_header("1") == tuple(tokenizer.encode("<Path>1:"))


def test_templates_are_tags_as_control_ids_and_text_encoded_alone(
    tokenizer: TextTokenizer,
) -> None:
    grammar = Grammar.bind(DIALECT, tokenizer)
    assert grammar.after_plan == grammar.path_tail == ()
    assert grammar.join_header == grammar.tags[Tag.JOIN_OPEN]
    header = (*grammar.tags[Tag.PATH_OPEN], *tokenizer.encode("12:"))
    assert grammar.path_header("12") == header
    assert grammar.outline_label("12") == tuple(tokenizer.encode("12:"))


def test_text_around_the_tags_of_a_template_is_kept_in_place(tokenizer: TextTokenizer) -> None:
    dialect = replace(
        DIALECT, after_plan="\n", path_tail="\nend", join_header="so\n<Conclusion> <Path>!"
    )
    grammar = Grammar.bind(dialect, tokenizer)
    assert grammar.after_plan == tuple(tokenizer.encode("\n"))
    assert grammar.path_tail == tuple(tokenizer.encode("\nend"))
    assert grammar.join_header == (
        *tokenizer.encode("so\n"),
        *grammar.tags[Tag.JOIN_OPEN],
        *tokenizer.encode(" "),
        *grammar.tags[Tag.PATH_OPEN],
        *tokenizer.encode("!"),
    )


@pytest.mark.parametrize("broken", ["unknown", "ordinary"])
def test_a_tokenizer_that_cannot_carry_a_tag_is_refused(broken: str) -> None:
    source = vocabularies.characters() if broken == "unknown" else vocabularies.words()
    data = json.loads(source)
    entry = next(token for token in data["added_tokens"] if token["content"] == "</Path>")
    data["added_tokens"].remove(entry)  # of `words`, a client could write it
    if broken == "unknown":
        del data["model"]["vocab"]["/"]
    with pytest.raises(InvalidDialect) as caught:
        Grammar.bind(DIALECT, TextTokenizer(json.dumps(data)))
    assert "'</Path>'" in caught.value.message
    assert "path_close" in caught.value.message
    assert "'multiverse'" in caught.value.message
    assert "multiverse model add-tags" in caught.value.message


def test_a_tag_that_stands_within_another_one_is_refused() -> None:
    tags = {**DIALECT.tags, Tag.PLAN_OPEN: "<Par", Tag.PLAN_CLOSE: "all"}
    dialect = replace(DIALECT, tags=tags)
    with pytest.raises(InvalidDialect, match="stand within those of '<Parallel>'"):
        Grammar.bind(dialect, TextTokenizer(vocabularies.spelled()))
    ending = replace(DIALECT, tags={**DIALECT.tags, Tag.PLAN_OPEN: "lel>"})
    Grammar.bind(ending, TextTokenizer(vocabularies.spelled()))
