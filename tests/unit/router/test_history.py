"""Texts of earlier answers are read back into the trees that were served, or stay text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_router.history import HistoryReader, depth
from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import TextBlock, TextTree, encode
from multiverse_shared.grammar import Grammar
from multiverse_shared.limits import Limits
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Context, linearise, normalise
from tests.unit.shared import vocabularies
from tests.unit.shared.random_answers import Case, cases
from tests.unit.shared.stage import LONG_TEMPLATES, Stage
