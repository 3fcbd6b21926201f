"""Figures of arms, table 2, the paper's figures, reports and recorded outputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from multiverse_trainer.evaluation.asking import Arm
from multiverse_trainer.evaluation.benchmarks import read_rows
from multiverse_trainer.evaluation.bound import StepTimes
from multiverse_trainer.evaluation.drawing import draw_budgets, draw_latency, draw_speed_up
from multiverse_trainer.evaluation.endpoint import Reply, Way
from multiverse_trainer.evaluation.figures import Measuring
from multiverse_trainer.evaluation.grading import grade
from multiverse_trainer.evaluation.question import AnswerForm
from multiverse_trainer.evaluation.regrading import regrade
from multiverse_trainer.evaluation.report import write_report
from multiverse_trainer.evaluation.running import Run
from multiverse_trainer.evaluation.shape import ShapeReader
from multiverse_trainer.evaluation.store import Store
from multiverse_trainer.evaluation.table2 import Table2, answers_wanted
from tests.unit.trainer.evaluation.fakes import FORKED, Answering, fails, question, says

DATA = Path(__file__).parents[3] / "data"
READER = ShapeReader("multiverse")
QUESTIONS = [question(f"q{number}") for number in range(10)]


def half_right(way: Way, prompt: str, seed: int) -> Reply:
    """Right on even questions; a forked answer of parallelism 2."""
    number = int(prompt.removeprefix("What is q").removesuffix("?"))
    return Reply(f"{FORKED}#{1 + number % 2}", "stop", 100, 2.0, critical=50)


def run_of(*arms: Arm, seeds: int = 1) -> Run:
    return Run("Test", QUESTIONS, arms, READER, seeds, 3)


async def test_a_run_is_told_with_intervals_and_paired_differences(tmp_path: Path) -> None:
    base = Arm(says("#1", seconds=4.0), Way("base"))
    other = Arm(Answering(half_right), Way("half"))
    result = await run_of(base, other, seeds=2).into(tmp_path, {"model": "m"})
    half = result["arms"]["half"]
    assert half["pass_at_1"]["value"] == 0.5
    low, high = half["pass_at_1"]["ci"]
    assert 0.1 <= low < 0.5 < high <= 0.9
    assert result["arms"]["base"]["pass_at_1"]["ci"] == [1.0, 1.0]
    assert (half["activation"], half["malformed"], half["parallelism"]) == (1.0, 0.0, 2.0)
    assert (half["tokens"], half["critical_path_tokens"]) == (100.0, 50.0)
    assert (half["answers"], half["unanswered"], half["seconds_median"]) == (20, 0, 2.0)
    difference = result["pass_at_1_difference"]["half"]
    assert (difference["to"], difference["questions"], difference["value"]) == ("base", 10, -0.5)
    assert json.loads((tmp_path / "report.json").read_text())["arms"] == result["arms"]
    assert "data:image/png;base64," in (tmp_path / "report.html").read_text()


async def test_an_arm_without_any_answer_is_told_and_hurts_nobody(tmp_path: Path) -> None:
    result = await run_of(Arm(says("#1"), Way("base")), Arm(fails(), Way("none"))).into(
        tmp_path, {}
    )
    assert result["arms"]["none"] == {"answers": 0, "unanswered": 10}
    assert result["failed"] == 10
    assert result["failures"] == ["status 503: no"]
    assert result["pass_at_1_difference"] == {}


async def test_a_server_that_does_not_say_its_critical_path_is_counted_in_characters(
    tmp_path: Path,
) -> None:
    result = await run_of(Arm(says(f"{FORKED}#1"), Way("other"))).into(tmp_path, {})
    assert 1 < result["arms"]["other"]["parallelism"] < 2
    assert result["arms"]["other"]["activation"] == 1.0


async def test_table_2_compares_with_the_twin(tmp_path: Path) -> None:
    twin = says("#1", seconds=4.0, critical=2)
    steps = 0

    def advance() -> None:
        nonlocal steps
        steps += 1

    ours = Answering(half_right)
    table = Table2(twin, ours, READER, plain=6)
    with Store(tmp_path / "a", {}) as answers, Store(tmp_path / "t", {}) as times:
        result = await table.run(QUESTIONS, 4, answers, times, 2, advance)
    assert steps == answers_wanted(len(QUESTIONS), 4, 6)
    assert (result["n"], result["timed"]) == (10, 4)
    assert (result["pass_twin"], result["pass_parallel"], result["pass_plain"]) == (1.0, 0.5, 0.5)
    assert result["diff"] == -0.5
    assert result["diff_ci"][0] < -0.5 < result["diff_ci"][1]
    assert (result["parallelism"], result["activation"]) == (2.0, 1.0)
    assert (result["speedup_twin"], result["speedup_serial"]) == (2.0, 1.0)
    assert twin.asked == {"twin": 14}
    assert ours.asked == {"parallel": 14, "plain": 6, "serial": 4}
    assert (result["arms"]["plain"]["answers"], result["arms"]["plain"]["unanswered"]) == (6, 0)


async def test_the_figures_are_measured_and_drawn(tmp_path: Path) -> None:
    def by_budget(way: Way, prompt: str, seed: int) -> Reply:
        limit = (way.multiverse or {}).get("max_critical_tokens", 1000)
        answer = "#1" if limit >= 60 else ""
        seconds = 1.0 if way.name.startswith("parallel") else 2.0
        return Reply(FORKED + answer, "stop", 100, seconds, critical=50)

    measuring = Measuring(Answering(by_budget), says("#1"), READER)
    steps = StepTimes({1: 2.0, 2: 3.0})
    with Store(tmp_path / "7", {}) as store:
        budgets = await measuring.budgets(QUESTIONS, [40, 80], store, 2)
    with Store(tmp_path / "8a", {}) as store:
        latency = await measuring.latency(QUESTIONS, store, lambda: steps)
    speed = await measuring.speed_up(QUESTIONS, [1, 4], lambda: steps)
    assert [point["pass_parallel"]["value"] for point in budgets] == [0.0, 1.0]
    assert [point["pass_twin"]["value"] for point in budgets] == [1.0, 1.0]
    assert all(point["ms_per_token"] == 10 for point in latency)
    assert all(point["ms_per_token_serial"] == 20 for point in latency)
    live = READER.shape(f"{FORKED}#1").live
    assert latency[0]["bound_ms_per_token"] == pytest.approx(
        steps.parallel_ms(live) / 100, abs=1e-4
    )
    assert sum(point["answers"] for point in latency) == len(QUESTIONS)
    assert [point["batch"] for point in speed] == [1, 4]
    assert speed[0]["bound"] == pytest.approx(
        steps.serial_ms(live) / steps.parallel_ms(live), abs=1e-3
    )
    for draw, points in ((draw_budgets, budgets), (draw_latency, latency), (draw_speed_up, speed)):
        draw(tmp_path / "picture.png", points)
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_shows_text_as_text(tmp_path: Path) -> None:
    write_report(tmp_path, "<T>", {"a_b": {"c": ["<x>"]}, "points": [{"k": 1}]})
    page = (tmp_path / "report.html").read_text()
    assert "<title>&lt;T&gt;</title>" in page
    assert "&lt;x&gt;" in page
    assert "<th>a b</th>" in page


class TestRecorded:
    """135 outputs of a 32B model, with the answers of those whose problem has one."""

    OUTPUTS = read_rows(DATA / "multiverse_outputs.jsonl.gz")
    REFERENCES = read_rows(DATA / "trace_references.jsonl.gz")

    def test_the_figures_are_stable(self) -> None:
        figures = regrade(self.OUTPUTS, self.REFERENCES)
        told = ("outputs", "without_reference", "right", "wrong", "no_answer")
        assert {name: tuple(figures[name][key] for key in told) for name in figures} == {
            "aime24": (20, 0, 9, 1, 10),
            "math500": (65, 0, 52, 2, 11),
            "gpqa": (50, 50, 0, 0, 0),
            "all": (135, 50, 61, 3, 21),
        }
        assert figures["math500"]["pass_at_1"]["value"] == 0.8

    def test_the_order_of_outputs_and_an_echo_of_the_prompt_change_nothing(self) -> None:
        echoed = [
            {**row, "output": f"{row['prompt']}\n\n{row['output']}"} for row in self.OUTPUTS[::-1]
        ]
        before, after = (regrade(rows, self.REFERENCES) for rows in (self.OUTPUTS, echoed))
        for name, figures in before.items():
            for key in ("right", "wrong", "no_answer", "without_reference"):
                assert after[name][key] == figures[key]

    def test_an_output_without_its_fields_is_refused(self) -> None:
        with pytest.raises(ValueError, match="output 2 has no prompt"):
            regrade([self.OUTPUTS[0], {"id": "a", "output": ""}], self.REFERENCES)


def test_grades_are_the_same_in_any_order() -> None:
    """No state is kept between two gradings."""
    answers = ["1", "2", "\\frac{1}{2}", "[0,1]"]
    texts = [f"\\boxed{{{answer}}}" for answer in answers]
    table = np.array(
        [
            [grade(question("q", answer, AnswerForm.BOXED), text).right for text in texts]
            for answer in answers
        ]
    )
    assert (table == np.eye(len(answers), dtype=bool)).all()
