"""The generated tasks of the tiny model: right, splitting, and learnable as written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from multiverse_shared.encode import TextBlock, TextTree
from multiverse_shared.tree import Block, Context, texts
from multiverse_shared.usage import usage
from multiverse_trainer.data.record import parse_record
from multiverse_trainer.data.rendering import Rendering
from multiverse_trainer.tiny.records import (
    EASY_SHARE,
    LONG_SHARE,
    WIDE_SHARE,
    curriculum,
    lengthened,
    record_of,
    widened,
)
from multiverse_trainer.tiny.start import write_start
from multiverse_trainer.tiny.tasks import Family, Level, Task, make_task, sequential
from multiverse_trainer.tiny.vocabulary import SUFFIX
from tests.unit.trainer.rows import TINY, renderer, vocabulary

TOKENIZER = vocabulary().tokenizer
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
        own = body_of_paths_and_conclusions(answer_of(task, Rendering.PARALLEL))
        plain = answer_of(task, Rendering.SEQUENTIAL)
        written = "".join(TOKENIZER.decode(text.ids) for text in texts(plain))
        assert own == written.replace(";", "")


def answer_of(task: Task, rendering: Rendering) -> Context:
    rendered = renderer().render(parse_record(record_of(task, "task")), rendering)
    return tuple(item for piece in (*rendered.pieces, (rendered.close,)) for item in piece)


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
            out += TOKENIZER.decode(item.ids)
    out = re.sub(r"<Goal>.*?</Goal>", "", out)
    return re.sub(r"</?(Parallel|Path|Conclusion)>", "", out)


def test_the_mix_is_parallel_enough() -> None:
    rng = Random(3)
    ratios = [
        usage(answer_of(make_task(rng), Rendering.PARALLEL), 0).parallelism for _ in range(300)
    ]
    assert sum(ratios) / len(ratios) >= 2.15


def test_no_text_holds_an_unknown_token() -> None:
    unknown = TOKENIZER.token_id("<unk>")
    for task in tasks(300):
        for rendering in (Rendering.PARALLEL, Rendering.SEQUENTIAL):
            context = answer_of(task, rendering)
            assert all(unknown not in text.ids for text in texts(context))
        assert unknown not in TOKENIZER.encode(task.prompt + SUFFIX)


def test_the_same_seed_draws_the_same_tasks() -> None:
    assert tasks(50, seed=5) == tasks(50, seed=5)
    assert tasks(50, seed=5) != tasks(50, seed=6)


def test_a_curriculum_begins_with_small_tasks_and_holds_the_families_asked_for() -> None:
    made = list(curriculum(3, 1000, [Family.EVAL, Family.NESTED]))
    sources = Counter(record["provenance"]["source"] for record in made)
    assert set(sources) == {"multiverse-tiny/eval", "multiverse-tiny/nested"}
    sizes = [len(record["reasoning"]) for record in made]
    cut = round(EASY_SHARE * len(made))
    assert sum(sizes[:cut]) / cut < 0.75 * sum(sizes[cut:]) / (len(made) - cut)
    assert len({record["id"] for record in made}) == len(made)


def test_long_tasks_have_twice_the_work_in_their_paths() -> None:
    rng = Random(4)

    def longest(level: Level) -> float:
        made = [make_task(rng, level=level) for _ in range(200)]
        return sum(usage(answer_of(t, Rendering.SEQUENTIAL), 0).critical for t in made) / 200

    assert 1.7 <= longest(Level.LONG) / longest(Level.FULL) <= 2.3


def leaves(tree: TextTree) -> int:
    """Paths that do not fork."""
    return sum(
        leaves(path) or 1 for node in tree if isinstance(node, TextBlock) for path in node.paths
    )


def longest_path(task: Task) -> int:
    """About how much work there is in the longest path of a task."""
    block = task.tree[0]
    assert isinstance(block, TextBlock)
    return max(len(str(path)) for path in block.paths)


def test_wide_tasks_have_six_to_nine_paths_as_long_as_those_of_long_ones() -> None:
    rng = Random(5)
    made = [make_task(rng, level=Level.WIDE) for _ in range(300)]
    assert {leaves(task.tree) for task in made} == {6, 7, 8, 9}
    longest = [longest_path(task) for task in made]
    others = [longest_path(make_task(rng, level=Level.LONG)) for _ in range(300)]
    assert 0.9 <= sum(longest) / sum(others) <= 1.3  # the longest of more


def test_behind_long_tasks_most_are_wide_and_none_was_seen_before() -> None:
    made = list(widened(3, 400))
    assert made == list(widened(3, 400))
    paths = [len(re.findall(r"[a-z]:", record["prompt"])) for record in made]
    assert WIDE_SHARE - 0.06 <= sum(count >= 6 for count in paths) / len(made) <= WIDE_SHARE + 0.2
    assert min(paths) == 2
    before = {
        record["prompt"] for records in (curriculum, lengthened) for record in records(3, 400)
    }
    assert not before & {record["prompt"] for record in made}


def test_behind_a_curriculum_most_tasks_are_long_and_none_was_seen_before() -> None:
    made = list(lengthened(3, 400, [Family.EVAL]))
    assert made == list(lengthened(3, 400, [Family.EVAL]))
    assert {record["provenance"]["source"] for record in made} == {"multiverse-tiny/eval"}
    terms = [re.findall(r"[a-z]:([-+\d]+),", record["prompt"])[0] for record in made]
    long = sum(len(re.findall(r"\d+", chain)) >= 6 for chain in terms) / len(made)
    assert abs(long - LONG_SHARE) < 0.08
    before = {record["prompt"] for record in curriculum(3, 400, [Family.EVAL])}
    assert not before & {record["prompt"] for record in made}


def test_a_start_has_the_vocabulary_of_the_published_model_and_weights_by_its_seed(
    tmp_path: Path,
) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_start(tmp_path / name, seed)
    for file in ("tokenizer.json", "chat_template.jinja", "multiverse.json"):
        assert (tmp_path / "a" / file).read_text("utf-8") == (TINY / file).read_text("utf-8")
    a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert a == b != c


def test_tags_spelled_in_a_text_are_characters() -> None:
    for task in tasks(50):
        ids = TOKENIZER.encode(f"<Goal>{task.prompt}</Path>")
        assert TOKENIZER.control_ids.isdisjoint(ids)


def test_text_written_in_pieces_is_split_as_it_is_in_one() -> None:
    for task in tasks(200):
        plain = TOKENIZER.encode(sequential(task))
        assert TOKENIZER.decode(plain) == sequential(task)
        assert plain == [i for piece in pieces(task.tree) for i in TOKENIZER.encode(piece)]


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
