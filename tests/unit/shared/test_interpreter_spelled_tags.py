"""Tags of several ids: the same answers as with one id for each tag."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.effects import Forked, Tokens
from multiverse_shared.limits import Limits
from multiverse_shared.tree import linearise
from tests.unit.shared import vocabularies
from tests.unit.shared.fake_engine import Record
from tests.unit.shared.stage import LONG_TEMPLATES, Stage

PLENTY = Limits(max_total_tokens=100_000, max_path_tokens=100_000, max_goal_tokens=100_000)
PLAN = "<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline></Goal>"
PIECES = [
    *vocabularies.TAGS,
    *("a", "b", "1:", "2.1:", "x<", "<Pa"),
    "</Conclusion></Parallel>",
    PLAN,
]


def stages(**changes: Any) -> tuple[Stage, Stage]:
    return Stage.build(**changes), Stage.over(vocabularies.spelled(), **changes)


def events(stage: Stage, record: Record) -> dict[str, list[Any]]:
    """What each path said, with its kind."""
    return {
        path: [
            (event.kind, stage.tokenizer.decode(event.ids)) if isinstance(event, Tokens) else event
            for event in told
            if not isinstance(event, Forked)  # its outlines are ids
        ]
        for path, told in record.by_path().items()
    }


@pytest.mark.parametrize("templates", [{}, LONG_TEMPLATES], ids=["short", "long"])
@settings(max_examples=150, deadline=None)
@given(
    texts=st.fixed_dictionaries(
        {
            path: st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
            for path in ("0", "0.1", "0.2", "0.1.1", "0.3")
        }
    )
)
def test_the_answer_does_not_depend_on_how_many_ids_a_tag_has(
    templates: dict[str, Any], texts: dict[str, str]
) -> None:
    one, many = stages(**templates)
    expected, record = one.perform(texts, PLENTY), many.perform(texts, PLENTY)
    assert many.answer(record) == one.answer(expected)
    assert record.interpreter.irregular == expected.interpreter.irregular
    assert events(many, record) == events(one, expected)


def test_a_tag_cut_by_the_end_of_a_path_is_text() -> None:
    _, stage = stages()
    record = stage.perform({"0": PLAN, "0.1": "x</Pat", "0.2": "y</Path>"})
    assert stage.answer(record)[1][0] == ["«<Path>1:»", "x</Pat", "«</Path>»"]


def test_a_plan_closed_by_the_system_in_the_middle_of_a_tag_keeps_what_was_written() -> None:
    _, stage = stages()
    limits = Limits(max_goal_tokens=30)
    record = stage.perform({"0": PLAN}, limits)
    assert record.aborted == ["0#1"]
    written = stage.tokenizer.decode(linearise(record.context))
    assert written.startswith("Q?<Parallel><Goal>" + PLAN.removeprefix("<Parallel><Goal>")[:30])


def test_a_path_that_may_not_fork_has_the_sequences_banned() -> None:
    _, stage = stages()
    record = stage.perform({"0": "ab"}, may_fork=False)
    banned = record.starts["0#1"].banned
    assert banned == (stage.ids("<Parallel>"), stage.ids("<Goal>"))
