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
        assert grammar.tags[tag] == tokenizer.token_id(spelling)
        assert grammar.tag_of[grammar.tags[tag]] is tag
    assert len(grammar.tag_of) == len(Tag)


def test_templates_are_tags_as_control_ids_and_text_encoded_alone(
    tokenizer: TextTokenizer,
) -> None:
    grammar = Grammar.bind(DIALECT, tokenizer)
    assert grammar.after_plan == grammar.path_tail == ()
    assert grammar.join_header == (grammar.tags[Tag.JOIN_OPEN],)
    header = (grammar.tags[Tag.PATH_OPEN], *tokenizer.encode("12:"))
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
        grammar.tags[Tag.JOIN_OPEN],
        *tokenizer.encode(" "),
        grammar.tags[Tag.PATH_OPEN],
        *tokenizer.encode("!"),
    )


@pytest.mark.parametrize("broken", ["missing", "ordinary"])
def test_a_tokenizer_without_a_tag_as_special_token_is_refused(broken: str) -> None:
    data = json.loads(vocabularies.characters())
    entry = next(token for token in data["added_tokens"] if token["content"] == "</Path>")
    if broken == "missing":
        data["added_tokens"].remove(entry)
    else:
        entry["special"] = False
    with pytest.raises(InvalidDialect) as caught:
        Grammar.bind(DIALECT, TextTokenizer(json.dumps(data)))
    assert "'</Path>'" in caught.value.message
    assert "path_close" in caught.value.message
    assert "'multiverse'" in caught.value.message
    assert "add it as a special token" in caught.value.message
