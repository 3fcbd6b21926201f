"""Seeds: one seed is one answer; other seeds, and siblings, draw differently."""

from __future__ import annotations

from typing import Any

from tests.e2e.answers import FLAT, Ask, Tree

# Terms that the model never saw: it is unsure of every step, and siblings do the same sum.
UNSURE = "sum a:99+99+99+99,b:99+99+99+99,c:99+99+99+99,?"
HEADER = 6  # ids of a path before its work: tag, number, label and colons
WARM: dict[str, Any] = {"temperature": 1.5, "max_tokens": 150}
SEEDS = (1, 2, 3, 4)


def test_a_seed_reproduces_its_answer(told: Ask) -> None:
    first, second = (told(UNSURE, **WARM, seed=1, top_k=top_k) for top_k in (0, 4096))
    assert Tree(first).ids() == Tree(second).ids()


def test_a_seed_gives_the_same_answer_at_once_and_one_path_at_a_time(told: Ask) -> None:
    serial = told(UNSURE, **WARM, seed=1, parallel="serial")
    assert Tree(serial).ids() == Tree(told(UNSURE, **WARM, seed=1, top_k=0)).ids()


def test_seeds_give_different_answers(told: Ask) -> None:
    texts = {Tree(told(UNSURE, **WARM, seed=seed, top_k=0)).text() for seed in SEEDS}
    assert len(texts) > 1


def test_siblings_with_the_same_work_write_different_texts(told: Ask) -> None:
    """They see the same prompt and do the same sum: only their draws differ."""
    siblings: list[set[tuple[int, ...]]] = []
    for seed in SEEDS:
        ids = Tree(told(UNSURE, **WARM, seed=seed, top_k=0)).ids()
        siblings.append({tuple(own[HEADER:]) for path, own in ids.items() if path.count(".") == 1})
    assert any(siblings), "no answer has forked"
    assert any(len(texts) > 1 for texts in siblings)


def test_greedy_answers_do_not_depend_on_the_seed(told: Ask) -> None:
    assert Tree(told(FLAT, seed=5)).ids() == Tree(told(FLAT, parallel="auto")).ids()


def test_a_temperature_near_zero_is_greedy(told: Ask) -> None:
    """Dividing by it overflows; the answer must not."""
    near, zero = (told(FLAT, temperature=value, seed=1, max_tokens=8) for value in (1e-42, 0))
    assert Tree(near).ids() == Tree(zero).ids()
