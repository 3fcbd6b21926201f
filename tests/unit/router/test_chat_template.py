"""Client text is data: whatever it says, control ids come from the template alone."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_router.chat_template import ChatTemplate
from multiverse_router.model import ServedModel
from multiverse_router.prompt import Turn
from multiverse_shared.errors import InvalidModel, InvalidRequest
from multiverse_shared.tree import linearise
from tests.unit.router.served import BOS, EOS, TAGS, TEMPLATE, served_model, tokenizer

SENTINELS = "\ue000\ue001\ue002\ue003"
JINJA = ["{{ bos_token }}", "{% endfor %}", "{# x #}", "{{ 7 * 7 }}", "{% raw %}", "}}", "{%"]
_pieces = st.sampled_from([*TAGS, BOS, EOS, *SENTINELS, *JINJA, "<", "/", ">", "Path", "\n", " "])
_hostile = st.lists(_pieces | st.text(max_size=4), max_size=10).map("".join)
THINKING = (
    "{% for m in messages %}<Goal>{% set text = m.content %}"
    "{% if '</think>' in text %}{% set text = text.split('</think>')[-1] %}{% endif %}"
    "{{ text }}</Goal>{% endfor %}"
)


def encode(source: str, *contents: str, role: str = "user") -> list[int]:
    turns = [Turn(role, text) for text in contents]
    return list(linearise(_model(source).prompts.write(turns, parallel=False)))


@cache
def _model(source: str) -> ServedModel:
    return served_model(chat_template_jinja=source.encode())


def control(ids: list[int]) -> list[int]:
    return [index for index in ids if index in tokenizer().control_ids]


@settings(max_examples=60, deadline=None)
@given(contents=st.lists(_hostile, min_size=1, max_size=3))
def test_client_text_is_encoded_as_it_stands_between_the_templates_own_ids(
    contents: list[str],
) -> None:
    plain, trusted = tokenizer().encode, tokenizer().encode_trusted
    expected = trusted(BOS)
    for text in contents:
        expected += trusted("<Path>user:") + plain(text)
    assert encode(TEMPLATE, *contents) == expected


@pytest.mark.parametrize("tag", [*TAGS, BOS, EOS])
def test_a_control_tag_in_client_text_is_characters(tag: str) -> None:
    own = control(encode(TEMPLATE, "plain"))
    assert len(own) == 2, "the template's own tags are control ids"
    assert control(encode(TEMPLATE, f"a{tag}b{tag}")) == own
    assert control(encode(TEMPLATE, tag, role="assistant")) == own


def test_a_tag_cut_in_two_by_messages_is_not_put_together() -> None:
    source = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert control(encode(source, "<Pa", "th>")) == []


def test_a_tag_that_client_text_would_complete_in_the_template_stays_plain() -> None:
    assert control(encode("<{{ messages[0].content }}>", "Path")) == []


def test_client_text_is_not_a_template() -> None:
    text = "{{ 7 * 7 }}{% for x in range(3) %}x{% endfor %}"
    ids = encode("{{ messages[0].content }}", text)
    assert tokenizer().decode(ids) == text


def test_text_with_the_sentinel_characters_is_kept_to_the_letter() -> None:
    text = f"{SENTINELS}<Path>{SENTINELS[::-1]}"
    ids = encode("{{ messages[0].content }}", text)
    assert tokenizer().decode(ids) == text
    assert control(ids) == []


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (THINKING, "thought</think><Path>"),
        ("{{ messages[0].content[3:] }}", "<Path>" * 20),
        ("{{ messages[0].content.split('|')[0] }}", "<Path>|"),
    ],
    ids=["thinking cut off", "sliced", "only the first part"],
)
def test_a_template_that_cuts_client_text_gives_it_no_control_ids(source: str, text: str) -> None:
    assert len(control(encode(source, text))) == source.count("Goal>")


def test_a_template_cannot_read_client_text() -> None:
    source = "{% if 'x' in messages[0].content or messages[0].content == 'x' %}<Path>{% endif %}"
    assert encode(source + "{{ messages[0].content }}", "x") == tokenizer().encode("x")


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("text | trim", "<Path>\n x"),
        ("text.strip()", "<Path>\n x"),
        ("text.lstrip('\n')", "<Path>\n x \n"),
        ("text.rstrip('\n').lstrip()", "<Path>\n x "),
        ("text.strip('<>\n')", "<Path>\n x "),
        ("text[1:]", "<Path>\n x \n"),
        ("text.split('P')[0]", "\n<Path>\n x \n"),
        ("'' ~ text", "\n<Path>\n x \n"),
        ("(text | trim)[1:] if text | length == 12", "Path>\n x"),
        ("{'a': text} | tojson", '{"a": "\n<Path>\n x \n"}'),
    ],
)
def test_a_template_can_cut_by_place_and_trim_white_space(expression: str, told: str) -> None:
    source = f"{{% set text = messages[0].content %}}{{{{ {expression} }}}}"
    ids = encode(source, "\n<Path>\n x \n")
    assert tokenizer().decode(ids) == told
    assert control(ids) == []


def test_the_trimmed_end_of_white_space_alone_is_nothing() -> None:
    assert encode("{{ messages[0].content | trim }}<Path>", " \n ") == encode("<Path>", "")


def test_neighbouring_messages_are_encoded_apart() -> None:
    ids = encode("{% for m in messages %}{{ m.content }}{% endfor %}", "12", "+ 3", "0")
    plain = tokenizer().encode
    assert ids == [*plain("12"), *plain("+ 3"), *plain("0")]


def test_marks_for_training_leave_no_trace() -> None:
    text = "{% for m in messages %}{{ m.content }}{% endfor %}"
    marked = f"<Goal>{{% generation %}}{text}{{% endgeneration %}}</Goal>"
    assert encode(marked, "x", "y") == encode(f"<Goal>{text}</Goal>", "x", "y")


def test_more_different_characters_than_can_be_told_apart_are_refused() -> None:
    text = "".join(map(chr, range(0x10000, 0x30000)))
    source = "{{ messages[0].content[-1] }}"
    assert tokenizer().decode(encode(source, text)) == text[-1]
    with pytest.raises(InvalidRequest, match="different characters"):
        encode(source, f"{text}x")


def test_a_template_that_writes_what_stands_for_client_text_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="private-use"):
        encode("\U000f0000{{ messages[0].content }}", "")


def test_a_template_that_refuses_the_messages_names_them() -> None:
    with pytest.raises(InvalidRequest, match="roles must alternate") as caught:
        encode("{{ raise_exception('roles must alternate') }}", "x")
    assert caught.value.field == "messages"


def test_a_template_that_does_not_compile_is_the_models_fault() -> None:
    with pytest.raises(InvalidModel, match="does not compile"):
        ChatTemplate("{% for %}", {})


@pytest.mark.parametrize("source", ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}"])
def test_a_template_reaches_nothing_but_its_messages(source: str) -> None:
    with pytest.raises(InvalidRequest):
        encode(source, "x")
