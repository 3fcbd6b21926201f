"""The layout equals that of an independent oracle on all of its trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from multiverse_shared.layout import Segment, next_position, positions, visibility
from multiverse_shared.tree import Context, count, linearise
from multiverse_shared.usage import usage
from tests.conformance.trees import tree_of, vector_cases

_DATA = Path(__file__).parents[2] / "data"
_CASES = [
    pytest.param(case, id=f"{rule}-{case['name']}")
    for rule in ("stitch", "offsets")
    for case in vector_cases(_DATA / f"layout_{rule}.json")
]


def tree(case: dict[str, Any]) -> Context:
    return tree_of(case["context"], case.get("path_offset", 0), case.get("join_offset", 0))


def rows(segments: list[Segment], size: int) -> list[str]:
    """The segments as the rows of a matrix; each token must be in exactly one segment."""
    matrix: dict[int, str] = {}
    for segment in segments:
        for index in range(segment.start, segment.stop):
            assert index not in matrix
            seen = {j for start, stop in segment.visible for j in range(start, stop)}
            seen |= set(range(segment.start, index + 1))
            matrix[index] = "".join("1" if j in seen else "0" for j in range(size))
    return [matrix[index] for index in range(size)]


def test_all_vectors_are_here() -> None:
    assert len(_CASES) == 60


@pytest.mark.parametrize("case", _CASES)
def test_tokens_come_in_the_linear_order(case: dict[str, Any]) -> None:
    assert list(linearise(tree(case))) == case["tokens"]


@pytest.mark.parametrize("case", _CASES)
def test_every_token_stands_where_the_oracle_puts_it(case: dict[str, Any]) -> None:
    assert positions(tree(case)) == case["positions"]
    assert next_position(tree(case)) == case["next_position"]


@pytest.mark.parametrize("case", _CASES)
def test_every_token_sees_what_the_oracle_lets_it_see(case: dict[str, Any]) -> None:
    assert rows(visibility(tree(case)), len(case["tokens"])) == case["visible"]


@pytest.mark.parametrize("case", _CASES)
def test_tokens_are_counted_as_the_oracle_counts_them(case: dict[str, Any]) -> None:
    counts = usage(tree(case))
    assert counts.generated == count(tree(case)) == case["total_tokens"]
    assert counts.critical == case["critical_path_tokens"]
