"""The dialect bound to two small tokenizers."""

from __future__ import annotations

import pytest

from multiverse_shared.dialect import load_dialect
from multiverse_shared.grammar import Grammar
from multiverse_shared.tokenizer import TextTokenizer
from tests.unit.shared import vocabularies
from tests.unit.shared.stage import Stage


@pytest.fixture(scope="session")
def characters() -> TextTokenizer:
    return TextTokenizer(vocabularies.characters())


@pytest.fixture(scope="session")
def bytes_merged() -> TextTokenizer:
    return TextTokenizer(vocabularies.bytes_merged())


@pytest.fixture(scope="session", params=["characters", "bytes_merged"])
def tokenizer(request: pytest.FixtureRequest) -> TextTokenizer:
    """Each of both in turn."""
    return TextTokenizer(getattr(vocabularies, request.param)())


@pytest.fixture(scope="session")
def grammar(characters: TextTokenizer) -> Grammar:
    return Grammar.bind(load_dialect("multiverse"), characters)


@pytest.fixture(scope="session")
def stage() -> Stage:
    return Stage.build()
