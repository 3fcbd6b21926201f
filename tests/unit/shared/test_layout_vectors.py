"""The layout of every join rule equals what independent oracles say about fixed trees.

`layout_stitch.json` and `layout_offsets.json` come from outside of this project; the others from
`tests.data.make_vectors`, which works them out from the definitions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multiverse_shared.layout import next_position, positions, visibility
from multiverse_shared.tree import count, linearise
from multiverse_shared.usage import usage
from tests.conformance.trees import tree_of_case, vector_cases
from tests.data.make_vectors import vector_files
from tests.unit.shared.definition import Definition, rows

_DATA = Path(__file__).parents[2] / "data"
_CASES = [
    pytest.param(case, id=f"{rule}-{case['name']}")
    for rule in ("stitch", "offsets", "linear", "reserve", "pasta")
    for case in vector_cases(_DATA / f"layout_{rule}.json")
]


def test_all_vectors_are_here() -> None:
    assert len(_CASES) == 40 + 20 + 32 + 34 + 30


def test_the_committed_vectors_are_those_that_the_definitions_give() -> None:
    for name, content in vector_files().items():
        assert (_DATA / name).read_text("utf-8") == content, f"run {vector_files.__module__}"


@pytest.mark.parametrize("case", _CASES)
def test_the_definitions_agree_with_every_oracle(case: dict[str, Any]) -> None:
    defined = Definition(tree_of_case(case))
    assert defined.positions == case["positions"]
    assert defined.next_position == case["next_position"]
    assert defined.visible == case["visible"]


@pytest.mark.parametrize("case", _CASES)
def test_tokens_come_in_the_linear_order(case: dict[str, Any]) -> None:
    assert list(linearise(tree_of_case(case))) == case["tokens"]


@pytest.mark.parametrize("case", _CASES)
def test_every_token_stands_where_the_oracle_puts_it(case: dict[str, Any]) -> None:
    tree = tree_of_case(case)
    assert positions(tree) == case["positions"]
    assert next_position(tree) == case["next_position"]


@pytest.mark.parametrize("case", _CASES)
def test_every_token_sees_what_the_oracle_lets_it_see(case: dict[str, Any]) -> None:
    assert rows(visibility(tree_of_case(case))) == case["visible"]


@pytest.mark.parametrize("case", _CASES)
def test_tokens_are_counted_as_the_oracle_counts_them(case: dict[str, Any]) -> None:
    tree = tree_of_case(case)
    counts = usage(tree)
    assert counts.generated == count(tree) == case["total_tokens"]
    assert counts.critical == case["critical_path_tokens"]
