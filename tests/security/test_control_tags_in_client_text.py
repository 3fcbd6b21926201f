"""Control ids come from the template alone, whatever the client writes and wherever.

Every tag of every dialect, in many disguises, over the kinds of tokenizers there are.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from multiverse_router.api.bodies import Message, answer_request
from multiverse_router.api.openai.bodies import ChatBody
from multiverse_router.chat_template import ChatTemplate
from multiverse_router.settings import RouterSettings
from multiverse_shared.dialect import load_dialect
from multiverse_shared.grammar import Grammar
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Context
from tests.security.hostile import disguises, texts
from tests.security.kinds import (
    DIALECTS,
    KINDS,
    TELLS_ANY_TEXT,
    control_ids,
    controls,
    raw,
    tokenizer,
)
from tests.security.templates import TEMPLATES
from tests.unit.router import served
from tests.unit.router.app import SEAL

HARMLESS = "hello"
ROLES = ("system", "user", "assistant")
kinds = pytest.mark.parametrize("kind", KINDS)
dialects = pytest.mark.parametrize("dialect", DIALECTS)
templates = pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)


def encoded(template: ChatTemplate, chat: list[dict[str, str]], known: TextTokenizer) -> list[int]:
    """The prompt of a chat without history: each piece as its author may have it encoded."""
    return [
        index
        for piece in template.render(chat)
        for index in (
            known.encode_trusted(piece.text) if piece.message is None else known.encode(piece.text)
        )
    ]


def skeleton(template: ChatTemplate, kind: str, dialect: str, contents: list[str]) -> list[int]:
    """The control ids of a chat's prompt, in order."""
    chat = [
        {"role": ROLES[number % 3], "content": content} for number, content in enumerate(contents)
    ]
    ids = encoded(template, chat, tokenizer(kind, dialect))
    return [index for index in ids if index in control_ids(kind, dialect)]


@kinds
@dialects
def test_the_tokenizer_itself_would_give_control_ids(kind: str, dialect: str) -> None:
    """Else the other tests show nothing."""
    known, told = raw(kind, dialect), control_ids(kind, dialect)
    for tag in controls(dialect):
        assert told & set(known.encode(f"x {tag}").ids), tag


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "words, folded"])
@dialects
def test_the_tokenizers_carry_the_dialects(kind: str, dialect: str) -> None:
    Grammar.bind(load_dialect(dialect), tokenizer(kind, dialect))


@kinds
def test_even_without_special_tokens_the_vocabulary_spells_tags(kind: str) -> None:
    known = Tokenizer.from_str(raw(kind, "npr").to_str())
    known.encode_special_tokens = True
    told = control_ids(kind, "npr")
    hits = [tag for tag in controls("npr") if told & set(known.encode(f"x {tag}").ids)]
    assert len(hits) > len(controls("npr")) // 2


@kinds
@dialects
def test_no_disguise_of_a_tag_is_a_control_id_or_loses_a_character(kind: str, dialect: str) -> None:
    text_tokenizer, told = tokenizer(kind, dialect), control_ids(kind, dialect)
    for tag in controls(dialect):
        for text in disguises(tag):
            ids = text_tokenizer.encode(text)
            assert told.isdisjoint(ids), text
            if kind in TELLS_ANY_TEXT:
                assert text_tokenizer.decode(ids) == text.replace("\u2581", space(kind))


def space(kind: str) -> str:
    """What stands for U+2581 after decoding: SentencePiece has no other space."""
    return "\u2581" if kind.startswith("byte") else " "


@kinds
@dialects
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_text_gives_no_control_id_and_survives(
    kind: str, dialect: str, data: st.DataObject
) -> None:
    text = data.draw(texts(controls(dialect)))
    ids = tokenizer(kind, dialect).encode(text)
    assert control_ids(kind, dialect).isdisjoint(ids)
    if kind in TELLS_ANY_TEXT:
        assert tokenizer(kind, dialect).decode(ids) == text.replace("\u2581", space(kind))


@kinds
@templates
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_prompt_has_the_control_ids_of_the_same_chat_with_harmless_text(
    kind: str, source: str, data: st.DataObject
) -> None:
    dialect = data.draw(st.sampled_from(DIALECTS))
    template = ChatTemplate(source, {"bos_token": "<bos>", "eos_token": "<eos>"})
    hostile = data.draw(st.lists(texts(controls(dialect)), min_size=1, max_size=5))
    expected = skeleton(template, kind, dialect, [HARMLESS] * len(hostile))
    assert expected, "the template has control ids of its own"
    assert skeleton(template, kind, dialect, hostile) == expected


@templates
@pytest.mark.parametrize("role", ROLES)
def test_every_disguise_stands_in_the_prompt_whole_in_every_role(source: str, role: str) -> None:
    template = ChatTemplate(source, {"bos_token": "<bos>", "eos_token": "<eos>"})
    for tag in controls("multiverse"):
        for text in disguises(tag):
            chat = [{"role": role, "content": text}, {"role": "user", "content": HARMLESS}]
            told = [piece.text for piece in template.render(chat) if piece.message is not None]
            assert told in ([text, HARMLESS], [text.strip(), HARMLESS])


@kinds
def test_a_tag_cut_in_two_by_messages_stays_text(kind: str) -> None:
    template = ChatTemplate("<bos>{% for m in messages %}{{ m.content }}{% endfor %}", {})
    bos = skeleton(template, kind, "multiverse", [HARMLESS])
    for tag in controls("multiverse"):
        assert skeleton(template, kind, "multiverse", [tag[:2], tag[2:]]) == bos


@kinds
@pytest.mark.parametrize("field", ["content", "name", "tool_call_id"])
def test_every_field_of_a_message_but_its_role_is_client_text(kind: str, field: str) -> None:
    template = ChatTemplate(f"<bos>{{{{ messages[0].{field} }}}}<|im_end|>", {})
    known = tokenizer(kind, "multiverse")
    ends = known.encode_trusted("<bos>"), known.encode_trusted("<|im_end|>")
    for tag in controls("multiverse"):
        ids = encoded(template, [{"role": "user", field: tag}], known)
        assert ids == [*ends[0], *known.encode(tag), *ends[1]]


@pytest.mark.parametrize("tag", served.TAGS)
def test_what_an_api_takes_besides_messages_does_not_reach_the_prompt(tag: str) -> None:
    known = {"role", "content", "multiverse"}  # the last is signed: ids that we made
    assert set(Message.model_fields) == known, "what else is in the prompt?"
    model = served.served_model()

    def prompt(**fields: object) -> Context:
        body = ChatBody.model_validate({"messages": [{"role": "user", "content": "x"}], **fields})
        options = body.multiverse
        wanted = answer_request("r", body, options, body.messages, 8, model, RouterSettings(), SEAL)
        return wanted.prompt

    assert prompt(user=tag, metadata={tag: tag}, model=model.name) == prompt()
