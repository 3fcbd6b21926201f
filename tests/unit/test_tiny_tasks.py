"""The generated tasks of the tiny model: right, splitting, and learnable as written."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import pytest

from multiverse_shared.dialect import load_dialect
from multiverse_shared.encode import TextTree
from multiverse_shared.grammar import Grammar
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Block, Context, texts
from multiverse_shared.usage import usage
from multiverse_trainer.tiny.batches import IGNORED, bucket, collate
from multiverse_trainer.tiny.samples import context_of, make_sample
from multiverse_trainer.tiny.tasks import Family, Level, Task, make_task, sequential
from multiverse_trainer.tiny.vocabulary import SUFFIX, Vocabulary

VOCABULARY = Vocabulary(load_dialect("multiverse"))
GRAMMAR = Grammar.bind(load_dialect("multiverse"), VOCABULARY)
FOLDS: dict[str, Callable[[list[int]], int]] = {"sum": sum, "max": max, "min": min}


def tasks(count: int, seed: int = 1) -> list[Task]:
    rng = Random(seed)
    levels = list(Level)
    return [make_task(rng, level=levels[number % len(levels)]) for number in range(count)]


def solve(prompt: str) -> str:
    """The answer from nothing but the prompt."""
    operation, _, rest = prompt.removesuffix("?").partition(" ")
    if operation in ("count", "list"):
        divisor, _, listing = rest.removeprefix("by ").partition(" ")
        numbers = re.findall(r"([a-z]):(\d+),", listing)
        good = [label for label, number in numbers if int(number) % int(divisor) == 0]
        return str(len(good)) if operation == "count" else "".join(good) or "none"
    groups = re.findall(r"[A-Z] (sum|max|min)\((.*?)\)", rest)
    if groups:
        return str(FOLDS[operation]([FOLDS[inner](chains(body)) for inner, body in groups]))
    return str(FOLDS[operation](chains(rest)))


def chains(listing: str) -> list[int]:
    bodies = re.findall(r"[a-z]:([-+\d]+),", listing)
    return [sum(int(term) for term in re.findall(r"[-+]?\d+", body)) for body in bodies]


def equations(text: str) -> list[list[str]]:
    """The rewriting steps of every chain that is worked out in `text`."""
    return [work.split("=") for work in re.findall(r"[a-z]:(\d[-+\d=]*)", text)]


def test_the_answer_is_what_the_prompt_asks_for() -> None:
    for task in tasks(600):
        assert task.answer == solve(task.prompt), task.prompt
        assert task.tree[-1] == f"#{task.answer}"


@pytest.mark.parametrize("family", [Family.EVAL, Family.NESTED])
def test_every_step_of_a_chain_has_the_value_of_the_step_before(family: Family) -> None:
    rng = Random(2)
    for _ in range(100):
        for steps in equations(sequential(make_task(rng, family))):
            values = {sum(int(term) for term in re.findall(r"[-+]?\d+", step)) for step in steps}
            assert len(values) == 1, steps


def test_both_renderings_carry_the_same_work() -> None:
    for task in tasks(200):
        assert flat_body(task.tree) == sequential(task).replace(";", "")
        forked = context_of(task, GRAMMAR, VOCABULARY, parallel=True)
        own = body_of_paths_and_conclusions(forked[1:])
        plain = context_of(task, GRAMMAR, VOCABULARY, parallel=False)
        written = "".join(VOCABULARY.decode(text.ids) for text in texts(plain[1:]))
        assert own == written.replace(";", "")


def flat_body(tree: TextTree) -> str:
    return "".join(
        node
        if isinstance(node, str)
        else "".join(map(flat_body, node.paths)) + flat_body(node.conclusion)
        for node in tree
    )


def body_of_paths_and_conclusions(context: Context) -> str:
    """The decoded answer without plans, headers and tags."""
    out = ""
    for item in context:
        if isinstance(item, Block):
            out += "".join(map(body_of_paths_and_conclusions, item.paths))
        elif not item.written:
            out += VOCABULARY.decode(item.ids)
    out = re.sub(r"<Goal>.*?</Goal>", "", out)
    return re.sub(r"</?(Parallel|Path|Conclusion)>", "", out)


def test_the_mix_is_parallel_enough() -> None:
    rng = Random(3)
    ratios = [
        usage(context_of(make_task(rng), GRAMMAR, VOCABULARY, parallel=True), 1).parallelism
        for _ in range(600)
    ]
    assert sum(ratios) / len(ratios) >= 2.15


def test_no_text_holds_an_unknown_token() -> None:
    for task in tasks(300):
        for parallel in (True, False):
            ids = make_sample(task, GRAMMAR, VOCABULARY, parallel=parallel).ids
            assert VOCABULARY.unknown not in ids


def test_loss_covers_neither_the_prompt_nor_what_the_system_writes() -> None:
    for task in tasks(100):
        for parallel in (True, False):
            context = context_of(task, GRAMMAR, VOCABULARY, parallel=parallel)
            sample = make_sample(task, GRAMMAR, VOCABULARY, parallel=parallel)
            own = [
                number > 0 and not text.written
                for number, text in enumerate(texts(context))
                for _ in text.ids
            ]
            assert list(sample.learned) == own
            assert not any(sample.learned[: len(VOCABULARY.encode(task.prompt)) + 1])


def test_every_learned_token_is_predicted_by_a_token_that_it_sees_and_stands_behind() -> None:
    for task in tasks(100):
        sample = make_sample(task, GRAMMAR, VOCABULARY, parallel=True)
        segment_of = {
            index: segment
            for segment in sample.segments
            for index in range(segment.start, segment.stop)
        }
        for index, learned in enumerate(sample.learned):
            if learned:
                segment, before = segment_of[index], index - 1
                sees = segment.start <= before or any(
                    start <= before < stop for start, stop in segment.visible
                )
                assert sees
                assert sample.positions[index] == sample.positions[before] + 1


def test_targets_are_the_next_tokens_where_these_are_learned() -> None:
    samples = [make_sample(t, GRAMMAR, VOCABULARY, parallel=True) for t in tasks(8)]
    batch = collate(samples, VOCABULARY.pad)
    for sample, targets in zip(samples, batch.targets_bs.tolist(), strict=True):
        for index, target in enumerate(targets):
            due = index + 1 < len(sample) and sample.learned[index + 1]
            assert target == (sample.ids[index + 1] if due else IGNORED)


def test_the_mask_lets_no_token_see_a_sibling_path() -> None:
    task = make_task(Random(4), Family.EVAL, Level.EASY)
    sample = make_sample(task, GRAMMAR, VOCABULARY, parallel=True)
    mask = collate([sample, sample], VOCABULARY.pad).mask_b1ss[0, 0]
    tokens = [VOCABULARY.tokens[index] for index in sample.ids]
    starts = [index for index, token in enumerate(tokens) if token == "<Path>"]
    join = tokens.index("<Conclusion>")
    assert not mask[starts[1] : join, starts[0] : starts[1]].any()
    assert mask[join, : join + 1].all()
    assert not mask.triu(1).any()


def test_no_batch_has_a_single_row() -> None:
    samples = [make_sample(t, GRAMMAR, VOCABULARY, parallel=False) for t in tasks(101)]
    assert all(len(rows) > 1 for rows in bucket(samples, 600))


def test_the_same_seed_draws_the_same_tasks() -> None:
    assert tasks(50, seed=5) == tasks(50, seed=5)
    assert tasks(50, seed=5) != tasks(50, seed=6)


def test_the_written_tokenizer_splits_as_training_does() -> None:
    written = TextTokenizer(VOCABULARY.tokenizer_json())
    for task in tasks(100):
        for text in (task.prompt + SUFFIX, sequential(task), f"<Goal>{task.prompt}</Path>"):
            assert written.encode(text) == VOCABULARY.encode(text)
            assert written.control_ids.isdisjoint(written.encode(text))


def test_text_written_in_pieces_is_split_as_it_is_in_one() -> None:
    for task in tasks(200):
        plain = VOCABULARY.encode(sequential(task))
        assert VOCABULARY.decode(plain) == sequential(task)
        assert plain == [i for piece in pieces(task.tree) for i in VOCABULARY.encode(piece)]


def pieces(tree: TextTree) -> list[str]:
    out: list[str] = []
    for node in tree:
        if isinstance(node, str):
            out.append(node)
        else:
            for path in node.paths:
                out.extend((*pieces(path), ";"))
            out.extend(pieces(node.conclusion))
    return out
