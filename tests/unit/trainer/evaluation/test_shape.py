"""What is read from the text of an answer, and the bound that follows from it."""

from __future__ import annotations

import pytest

from multiverse_trainer.evaluation.bound import StepTimes
from multiverse_trainer.evaluation.endpoint import Way
from multiverse_trainer.evaluation.prompting import prompting_ways, prompting_words
from multiverse_trainer.evaluation.shape import ShapeReader
from tests.unit.trainer.evaluation.fakes import FORKED

READER = ShapeReader("multiverse")


def test_a_plain_answer_does_not_fork() -> None:
    shape = READER.shape("2+2=4")
    assert (shape.forked, shape.malformed, shape.parallelism) == (False, False, 1.0)
    assert shape.live == (1,) * 5


def test_a_forked_answer_is_well_formed_and_parallel() -> None:
    shape = READER.shape(f"{FORKED}#1")
    assert (shape.forked, shape.malformed) == (True, False)
    assert shape.parallelism > 1
    assert max(shape.live) == 2
    # A step for each token of the longest chain, but headers take one together.
    assert sum(shape.live) < len(FORKED)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("4</Path>", id="stray tag"),
        pytest.param(FORKED.replace("<Path>2:y=20</Path>", ""), id="a path is missing"),
        pytest.param(FORKED.replace("</Parallel>", ""), id="left open"),
        pytest.param("<Parallel><Goal></Goal></Parallel>", id="no outlines"),
    ],
)
def test_tags_out_of_order_are_malformed(text: str) -> None:
    assert READER.shape(text).malformed


def test_step_times_are_lines_between_the_points_and_proportional_beyond() -> None:
    steps = StepTimes({4: 20.0, 1: 10.0, 2: 12.0})
    assert [steps(k) for k in (0.5, 1, 2, 3, 4, 8)] == [10, 10, 12, 16, 20, 40]
    with pytest.raises(ValueError, match="no time"):
        StepTimes({})


def test_the_bound_adds_the_steps_of_an_answer() -> None:
    steps = StepTimes({1: 10.0, 2: 12.0, 4: 20.0})
    live = (1, 2, 2)
    assert steps.parallel_ms(live) == 34
    assert steps.serial_ms(live) == 50
    assert steps.parallel_ms(live, batch=2) == 12 + 20 + 20
    assert steps.serial_ms(live, batch=2) == 60


@pytest.mark.parametrize("dialect", ["multiverse", "multiverse-qwen", "npr", "threadweaver"])
def test_words_show_the_grammar_of_the_dialect(dialect: str) -> None:
    example = prompting_words(dialect).split("\n\n")[1]
    shape = ShapeReader(dialect).shape(example)
    assert (shape.forked, shape.malformed) == (True, False)


def test_a_dialect_without_plans_has_no_words() -> None:
    with pytest.raises(ValueError, match="pasta"):
        prompting_words("pasta")


def test_prompting_asks_both_without_and_with_words() -> None:
    plain, told = prompting_ways(Way("plain"), "multiverse")
    assert plain.body("1+1?", 0)["messages"][0]["content"] == "1+1?"
    content = told.body("1+1?", 0)["messages"][0]["content"]
    assert "<Parallel>" in content
    assert content.endswith("1+1?")
    assert (plain.name, told.name) == ("plain", "plain-words")
