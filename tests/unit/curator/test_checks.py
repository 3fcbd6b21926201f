"""Every check finds what is planted for it and lets clean samples pass."""

from __future__ import annotations

import pytest

from multiverse_curator.answers import Rewrite
from multiverse_curator.checks.content import compare
from multiverse_curator.checks.grammar import GrammarCheck
from multiverse_curator.checks.standalone import check_rewrite
from multiverse_curator.faults import Fault
from multiverse_shared.answer import final_answer, same_answer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import TextBlock
from tests.unit.curator.planted import labelled, score

GRAMMAR = GrammarCheck(load_dialect("multiverse"))
# By form alone: vague words ("our earlier finding") point at a sibling unseen.
LEAST_RECALL = {"content": 0.95, "grammar": 1.0, "answer": 1.0, "numbers": 0.95, "standalone": 0.6}


def test_checks_find_planted_faults_and_pass_clean_samples() -> None:
    scores = score(labelled(200, seed=3))
    for name, least in LEAST_RECALL.items():
        planted = scores[name].hits + scores[name].missed
        assert planted >= 15
        assert scores[name].precision == 1.0, name
        assert scores[name].recall >= least, scores[name].misses
    assert scores["whole"].false_alarms == 0


def test_a_dropped_sentence_of_a_long_text_is_missed_by_distance_alone() -> None:
    sentences = [f"The {n}th of all these sentences says something. " for n in range(100, 160)]
    original = "".join(sentences)
    content = compare(original, original.replace(sentences[30], ""))
    assert content.distance < 0.05
    assert content.dropped == (sentences[30].strip(),)
    assert content.fault(0.2)


def test_one_of_two_equal_sentences_is_missed_when_it_goes() -> None:
    twice = "The very same sentence again. " * 2
    assert compare(twice, "The very same sentence again. ").dropped


@pytest.mark.parametrize("character", ["<", "&", "中", "\\frac{a}{b}", "<Path>", "```x```"])
def test_content_is_compared_as_it_is(character: str) -> None:
    text = f"One sentence with {character} in it. Another sentence behind it."
    assert compare(text, text).fault(0.0) == ""


@pytest.mark.parametrize(
    ("paths", "outlines", "conclusion", "words"),
    [
        (["It has 12 sides."], ["count"], "Done.", "need as many outlines"),
        (["It has 12 sides.", ""], ["a", "b"], "Done.", "path 2: it is empty"),
        (["It has 12 sides.", "It has 20 corners."], ["a", "a"], "Done.", "same"),
        (["It has 12 sides.", "It has 20 corners."], ["a", " "], "Done.", "outline 2 is empty"),
        (["It has 12 sides.", "It has 20 corners."], ["a", "b"], " ", "conclusion is empty"),
        (["It has 12 sides.", "It has 20 corners."], ["a", "b"], "So 77.", "says 77"),
        (["It has 12 sides.", "It has 21 corners."], ["a", "b"], "Done.", "number 21"),
        (["It has 12 sides.", "It has many corners."], ["a", "b"], "Done.", "number 20"),
    ],
)
def test_a_rewrite_is_held_to_the_original(
    paths: list[str], outlines: list[str], conclusion: str, words: str
) -> None:
    answer = Rewrite(outlines=outlines, paths=paths, conclusion=conclusion)
    with pytest.raises(Fault, match=words):
        check_rewrite(answer, ["It has 12 sides.", "It has 20 corners."], set())


def test_literal_tags_in_a_text_are_text() -> None:
    block = TextBlock(("a", "b"), (("The tag </Path> ends it & <x>.",), ("two",)), ("end",))
    assert GRAMMAR.tree_fault(("Say <Parallel>. ", block)) == ""


def test_trees_that_are_too_deep_or_too_narrow_are_refused() -> None:
    tree = TextBlock(("a", "b"), (("x",), ("y",)), ("z",))
    for _ in range(2):
        assert GRAMMAR.tree_fault((tree,)) == "" or tree.paths[0] != ("x",)
        tree = TextBlock(("a", "b"), ((tree,), ("y",)), ("z",))
    assert "nested 3 deep" in GRAMMAR.tree_fault((tree,))
    assert "1 path" in GRAMMAR.tree_fault((TextBlock(("a",), (("x",),), ("z",)),))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("First \\boxed{1}, no: \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("Answer: 3\nWait.\nAnswer: 4.", "4"),
        ("The final answer is 12.", "12"),
        ("a9b4=13#13", "13"),
        ("综上，答案是7。", "7"),
        ("nothing said", None),
    ],
)
def test_the_last_answer_counts(text: str, answer: str | None) -> None:
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("expected", "given", "same"),
    [
        ("\\frac{1}{2}", "0.5", True),
        ("x^2+1", "1 + x^2", True),
        ("12", "13", False),
        ("none", "None", True),
        ("9^{9^{9^{9}}}", "1", False),
    ],
)
def test_answers_are_compared_as_mathematics(expected: str, given: str, same: bool) -> None:
    assert same_answer(expected, given) is same
