"""What counts as the answer of a text. Each case is a grader that went wrong somewhere."""

from __future__ import annotations

import pytest

from multiverse_shared.answer import boxed_answers, same_answer
from multiverse_trainer.evaluation.grading import grade, own_text
from multiverse_trainer.evaluation.question import AnswerForm, Question

ASKED = (
    "Solve this. The last line should be \\boxed{ANSWER}.\n\nWhat is 2^{10}, if \\boxed{7} is not?"
)


def right(answer: str, text: str, form: AnswerForm = AnswerForm.BOXED, prompt: str = ASKED) -> bool:
    return grade(Question("q", "all", prompt, answer, form), text).right


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param("204", f"{ASKED}\n\nSo it is \\boxed{{204}}.", id="echoed prompt"),
        pytest.param("204", f"\\boxed{{204}}\n\n{ASKED}", id="prompt echoed at the end"),
        pytest.param(
            "204", ASKED.replace(" ", "  \n") + " \\boxed{204}", id="echo with other spaces"
        ),
        pytest.param("204", "Write \\boxed{ANSWER}: \\boxed{204}.", id="quoted instruction before"),
        pytest.param("204", "\\boxed{204}, as \\boxed{ANSWER} asks.", id="instruction behind"),
        pytest.param("3", "First \\boxed{1}, no \\boxed{2}. Wait: \\boxed{3}", id="several boxes"),
        pytest.param("3", "\\boxed{3} \\boxed{}", id="empty box"),
        pytest.param("3", "\\boxed{3} and \\boxed{4", id="box cut off"),
        pytest.param("5", "\\boxed{5\\text{ cm}}", id="units"),
        pytest.param("864 \\mbox{ inches}^2", "\\boxed{864}", id="units in the reference"),
        pytest.param("90^\\circ", "\\boxed{90}", id="degrees"),
        pytest.param("\\$5.50", "\\boxed{5.5}", id="money"),
        pytest.param("10\\%", "\\boxed{10}", id="per cent"),
        pytest.param("\\frac{1}{2}", "\\boxed{0.5}", id="fraction and decimal"),
        pytest.param("\\frac{3}{2}", "\\boxed{\\dfrac32}", id="short fraction"),
        pytest.param("\\frac{11}{2}", "\\boxed{11/2}", id="slash"),
        pytest.param("[-2,7]", "\\boxed{x \\in [-2, 7]}", id="interval"),
        pytest.param("1,-2", "\\boxed{-2, 1}", id="values in another order"),
        pytest.param("073", "\\boxed{73}", id="leading zero"),
        pytest.param("1,000", "\\boxed{1000}", id="thousands"),
        pytest.param("2\\sqrt{3}", "\\boxed{\\sqrt{12}}", id="roots"),
        pytest.param("x^2+1", "\\boxed{1 + x^{2}}", id="terms in another order"),
        pytest.param("\\text{Evelyn}", "\\boxed{Evelyn}", id="word"),
        pytest.param("7", "\\boxed{7}", id="a value that the prompt boxes too"),
    ],
)
def test_right_answers_are_right(answer: str, text: str) -> None:
    assert right(answer, text)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param("7", ASKED, id="nothing but the prompt"),
        pytest.param("7", f"{ASKED} I do not know.", id="the box of the prompt"),
        pytest.param("1", "First \\boxed{1}, no: \\boxed{2}", id="taken back"),
        pytest.param("204", "It is 204.", id="no box"),
        pytest.param("[-2,7]", "\\boxed{(-2,7)}", id="open interval"),
        pytest.param("\\frac{1}{3}", "\\boxed{0.33}", id="rounded"),
        pytest.param("ANSWER", "\\boxed{ANSWER}", id="the placeholder itself"),
    ],
)
def test_wrong_answers_are_wrong(answer: str, text: str) -> None:
    assert not right(answer, text)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("\\boxed{C}", "C"),
        ("\\boxed{\\text{C}}", "C"),
        ("\\boxed{\\textbf{(C)}}", "C"),
        ("\\boxed{(C)}", "C"),
        ("\\boxed{c}", "C"),
        ("\\boxed{C) 10^{-4} eV}", "C"),
        ("A or B? \\boxed{A}. No: \\boxed{C}.", "C"),
        ("\\boxed{$LETTER} means \\boxed{C}", "C"),
        ("\\boxed{10^{-4}}", "10^{-4}"),
        ("\\boxed{Cat}", "Cat"),
        ("Answer: C", None),
    ],
)
def test_letters_are_read_from_the_last_box(text: str, chosen: str | None) -> None:
    prompt = "Choose. Write \\boxed{$LETTER}.\n\nA) 1\nB) 2\nC) 3"
    found = grade(Question("q", "all", prompt, "C", AnswerForm.CHOICE), text)
    assert found.given == chosen
    assert found.right is (chosen == "C")


def test_generated_tasks_answer_behind_the_last_hash() -> None:
    assert right("13", "a9b4=13#13", AnswerForm.HASH, "sum a:9,b:4,?")
    assert not right("13", "#13#14", AnswerForm.HASH, "sum a:9,b:4,?")
    assert not right("13", "a9b4=13", AnswerForm.HASH, "sum a:9,b:4,?")


def test_a_grader_that_reads_the_first_box_of_everything_would_be_noticed() -> None:
    """The published one did, and scored 0 of 30 where 14 were right."""

    def first_box(answer: str, text: str) -> bool:
        return same_answer(answer, boxed_answers(text)[0])

    text = f"{ASKED}\n\nSo \\boxed{{1024}}."
    assert right("1024", text)
    assert not first_box("1024", text)


def test_only_whole_echoes_are_cut_out() -> None:
    assert own_text("What is 1+1?", "What is 1+1? It is 2. What is 1?") == " It is 2. What is 1?"
    assert own_text("", "text") == "text"
