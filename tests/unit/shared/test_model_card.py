"""`multiverse.json` of a model directory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from multiverse_shared.dialect import load_dialect
from multiverse_shared.errors import InvalidDialect, InvalidModel
from multiverse_shared.model_card import ModelCard


def refusal(text: str) -> InvalidModel:
    with pytest.raises(InvalidModel) as caught:
        ModelCard.parse(text.encode())
    assert "multiverse.json" in caught.value.message
    return caught.value


def test_a_card_names_the_dialect_and_the_suffix() -> None:
    card = ModelCard.parse(b'{"dialect": "multiverse", "prompt_suffix": " in parallel"}')
    assert card == ModelCard(load_dialect("multiverse"), " in parallel")


@pytest.mark.parametrize("text", ["", "{", "\udc80", "[1]", '"x"', "null"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidModel, match=r"multiverse\.json"):
        ModelCard.parse(text.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"prompt_suffix": ""}', "dialect"),
        ('{"dialect": 3, "prompt_suffix": ""}', "dialect"),
        ('{"dialect": "multiverse"}', "prompt_suffix"),
        ('{"dialect": "multiverse", "prompt_suffix": null}', "prompt_suffix"),
    ],
)
def test_a_missing_or_odd_value_is_reported_with_its_key(text: str, key: str) -> None:
    error = refusal(text)
    assert key in error.message
    assert error.field == key


def test_an_unknown_key_is_reported_by_name() -> None:
    error = refusal('{"dialect": "multiverse", "prompt_suffix": "", "promt": "x"}')
    assert "promt" in error.message.replace("prompt_suffix", "")


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidDialect, match=r"'klingon'; known: .*multiverse"):
        ModelCard.parse(b'{"dialect": "klingon", "prompt_suffix": ""}')


def test_the_documented_cards_are_cards() -> None:
    """`docs/sglang.md` writes them with `echo`."""
    page = Path(__file__).parents[3] / "docs" / "sglang.md"
    cards = re.findall(r"echo '(\{.*?\})' >", page.read_text("utf-8"))
    assert {ModelCard.parse(card.encode()).dialect.name for card in cards} == {
        "multiverse-qwen",
        "npr",
    }
