"""Templates that keep client text whole, and those that do not."""

from __future__ import annotations

import pytest

from multiverse_router.chat_template import ChatTemplate
from multiverse_router.template_check import check_template
from multiverse_shared.model_check import Verdict
from tests.security.templates import TEMPLATES
from tests.unit.router.served import TEMPLATE


def loop(expression: str) -> str:
    return f"{{% for m in messages %}}<Path>{{{{ {expression} }}}}{{% endfor %}}"


def verdicts(source: str) -> list[tuple[Verdict, str]]:
    found = check_template(ChatTemplate(source, {"bos_token": "<bos>", "eos_token": "<eos>"}))
    return [(finding.verdict, finding.message) for finding in found]


@pytest.mark.parametrize("source", [TEMPLATE, *TEMPLATES.values()])
def test_templates_in_the_manner_of_well_known_models_pass(source: str) -> None:
    [(verdict, _)] = verdicts(source)
    assert verdict is Verdict.OK


@pytest.mark.parametrize(
    "expression",
    ["m.content[:5]", "m.content[4:]", "m.content | urlencode", "m.content | reverse", "''"],
)
def test_a_template_that_does_not_write_all_of_a_text_is_refused(expression: str) -> None:
    found = verdicts(loop(expression))
    assert any(verdict is Verdict.REFUSED and "not whole" in told for verdict, told in found)


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("{{ raise_exception('no chats') }}", "no chats"),
        ("{{ messages[0].content + 1 }}", "user"),
        ("{{ messages[0].content }}{{ messages[1 / 0] }}", "division"),
        (loop("m.content") + "\U000f1234", "private-use"),
    ],
)
def test_a_template_that_fails_is_refused_with_its_words(source: str, word: str) -> None:
    found = verdicts(source)
    assert all(verdict is Verdict.REFUSED for verdict, told in found if "system" not in told)
    assert any(word in told for _, told in found)


@pytest.mark.parametrize(
    "source",
    [
        "{% if messages[0].role == 'system' %}{{ raise_exception('none') }}{% endif %}"
        + loop("m.content"),
        loop("m.content if m.role != 'system' else ''"),
    ],
    ids=["refused", "dropped"],
)
def test_a_model_without_system_messages_passes_with_a_note(source: str) -> None:
    (passed, _), (note, told) = verdicts(source)
    assert (passed, note) == (Verdict.OK, Verdict.NOTE)
    assert "system" in told
