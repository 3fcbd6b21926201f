"""Small tasks that split naturally, with their worked answers as trees of text.

Knows arithmetic and how an answer is written down. Must not know tokens or layouts.

Every step of a path rewrites the one before (`7+5-3=12-3=9`), so that each character follows
from text close by. A conclusion names its operation again and keeps a running result
(`sum a9 b4=13 c11=24`, without the spaces).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from string import ascii_lowercase, ascii_uppercase

from multiverse_shared.encode import TextBlock, TextTree


class Family(StrEnum):
    """What kind of question is asked."""

    EVAL = "eval"  # chains of additions and subtractions, combined into one number
    TEST = "test"  # which numbers a divisor divides
    NESTED = "nested"  # groups of chains, combined twice


class Level(StrEnum):
    """How much work a task is."""

    EASY = "easy"  # few paths, short ones
    SHORT = "short"  # short paths
    CONCLUSION = "conclusion"  # next to no work in the paths: all of it is in the conclusion
    FULL = "full"
    LONG = "long"  # twice the work in each path
    WIDE = "wide"  # long paths, and more of them


@dataclass(frozen=True, slots=True)
class Task:
    """A question and its worked answer; the tree ends with `#` and the answer."""

    family: Family
    prompt: str
    tree: TextTree
    answer: str


@dataclass(frozen=True, slots=True)
class Chain:
    """`7+5-3`: the first term, the signed ones after it and the value after each."""

    terms: tuple[str, ...]
    values: tuple[int, ...]

    @property
    def text(self) -> str:
        return "".join(self.terms)

    @property
    def work(self) -> str:
        """The chain rewritten term by term down to its value."""
        steps = [self.text]
        for done, value in enumerate(self.values[1:], 2):
            steps.append(str(value) + "".join(self.terms[done:]))
        return "=".join(steps)


LARGEST = 20  # no running value of a chain exceeds it
FAMILY_WEIGHTS = {Family.EVAL: 4, Family.TEST: 3, Family.NESTED: 3}
PATH_WEIGHTS = {2: 1, 3: 2, 4: 3, 5: 4, 6: 4}  # more paths, more parallelism
WIDE_PATHS = (6, 8)
DIVISORS = (3, 4, 7)
COMBINE: dict[str, Callable[[int, int], int]] = {
    "sum": lambda left, right: left + right,
    "max": max,
    "min": min,
}
EVAL_TERMS = {
    Level.EASY: (2, 3),
    Level.SHORT: (2, 3),
    Level.CONCLUSION: (1, 1),
    Level.FULL: (4, 5),
    Level.LONG: (6, 8),
    Level.WIDE: (6, 8),
}
NESTED_TERMS = {
    Level.EASY: (2, 2),
    Level.SHORT: (2, 2),
    Level.CONCLUSION: (1, 1),
    Level.FULL: (3, 4),
    Level.LONG: (5, 7),
    Level.WIDE: (5, 7),
}
NESTED_GROUPS = {Level.EASY: 2, Level.WIDE: 3}  # others: two or three
TEST_DIGITS = {
    Level.EASY: (2, 3),
    Level.SHORT: (2, 3),
    Level.CONCLUSION: (2, 2),
    Level.FULL: (5, 6),
    Level.LONG: (8, 10),
    Level.WIDE: (8, 10),
}


def make_task(rng: Random, family: Family | None = None, level: Level = Level.FULL) -> Task:
    """The next task of `rng`; of a family drawn by weight unless one is given."""
    return _MAKERS[family or draw_family(rng)](rng, level)


def draw_family(rng: Random, families: Sequence[Family] = tuple(Family)) -> Family:
    """One of the families, by weight."""
    return rng.choices(families, [FAMILY_WEIGHTS[family] for family in families])[0]


def sequential(task: Task) -> str:
    """The same work without plans and forks: path after path, each ended by `;`."""
    return _flat(task.tree)


def _flat(tree: TextTree) -> str:
    parts: list[str] = []
    for node in tree:
        if isinstance(node, str):
            parts.append(node)
        else:
            parts.extend(_flat(path) + ";" for path in node.paths)
            parts.append(_flat(node.conclusion))
    return "".join(parts)


def _make_eval(rng: Random, level: Level) -> Task:
    operation = rng.choice(list(COMBINE))
    labels = ascii_lowercase[: _path_count(rng, level)]
    chains = [_draw_chain(rng, EVAL_TERMS[level]) for _ in labels]
    block, value = _chain_block(operation, labels, chains)
    prompt = f"{operation} {_listing(labels, [chain.text for chain in chains])}?"
    return _task(Family.EVAL, prompt, block, str(value))


def _make_test(rng: Random, level: Level) -> Task:
    operation = rng.choice(("count", "list"))
    divisor = rng.choice(DIVISORS)
    labels = ascii_lowercase[: _path_count(rng, level)]
    numbers = [_draw_number(rng, divisor, TEST_DIGITS[level]) for _ in labels]
    passed = [int(number) % divisor == 0 for number in numbers]
    paths = [
        f"{label}:{_division(number, divisor)}"
        for label, number in zip(labels, numbers, strict=True)
    ]
    conclusion = operation
    for place, (label, good) in enumerate(zip(labels, passed, strict=True), 1):
        conclusion += f"{label}={'yes' if good else 'no'}"
        if operation == "count":
            conclusion += str(sum(passed[:place]))
    listed = "".join(label for label, good in zip(labels, passed, strict=True) if good)
    answer = str(sum(passed)) if operation == "count" else listed or "none"
    block = TextBlock(tuple(labels), tuple((path,) for path in paths), (conclusion,))
    prompt = f"{operation} by {divisor} {_listing(labels, numbers)}?"
    return _task(Family.TEST, prompt, block, answer)


def _make_nested(rng: Random, level: Level) -> Task:
    outer = rng.choice(list(COMBINE))
    groups = ascii_uppercase[: NESTED_GROUPS.get(level) or rng.randint(2, 3)]
    rest = ascii_lowercase
    prompt, paths, values = outer, list[TextTree](), list[int]()
    for group in groups:
        # The prompt and the path both name the operation right beside the group's label.
        inner = rng.choice(list(COMBINE))
        size = 2 if level is Level.EASY else rng.randint(2, 3)
        labels, rest = rest[:size], rest[size:]
        chains = [_draw_chain(rng, NESTED_TERMS[level]) for _ in labels]
        block, value = _chain_block(inner, labels, chains)
        prompt += f" {group} {inner}({_listing(labels, [chain.text for chain in chains])})"
        paths.append((f"{group}{inner}", block, f"={value}"))
        values.append(value)
    conclusion, answer = _fold(outer, groups, values)
    block = TextBlock(tuple(groups), tuple(paths), (conclusion,))
    return _task(Family.NESTED, prompt + "?", block, str(answer))


_MAKERS: dict[Family, Callable[[Random, Level], Task]] = {
    Family.EVAL: _make_eval,
    Family.TEST: _make_test,
    Family.NESTED: _make_nested,
}


def _task(family: Family, prompt: str, block: TextBlock, answer: str) -> Task:
    return Task(family, prompt, (block, f"#{answer}"), answer)


def _path_count(rng: Random, level: Level) -> int:
    if level is Level.EASY:
        return rng.randint(2, 3)
    if level is Level.WIDE:
        return rng.randint(*WIDE_PATHS)
    return rng.choices(list(PATH_WEIGHTS), list(PATH_WEIGHTS.values()))[0]


def _draw_chain(rng: Random, terms: tuple[int, int]) -> Chain:
    """A chain whose running values wander evenly over 0..LARGEST by single digits."""
    count = rng.randint(*terms)
    value = rng.randint(0, LARGEST) if count == 1 else rng.randint(1, 9)
    values, texts = [value], [str(value)]
    while len(values) < count:
        # Drawing the next value, not the next term, keeps carries as common as the rest.
        step = rng.choice([d for d in range(-9, 10) if d and 0 <= values[-1] + d <= LARGEST])
        values.append(values[-1] + step)
        texts.append(f"{step:+d}")
    return Chain(tuple(texts), tuple(values))


def _chain_block(operation: str, labels: str, chains: Sequence[Chain]) -> tuple[TextBlock, int]:
    """One path per chain, and what `operation` makes of their values."""
    paths = tuple((f"{label}:{chain.work}",) for label, chain in zip(labels, chains, strict=True))
    conclusion, value = _fold(operation, labels, [chain.values[-1] for chain in chains])
    return TextBlock(tuple(labels), paths, (conclusion,)), value


def _fold(operation: str, labels: str, values: Sequence[int]) -> tuple[str, int]:
    """`suma9b4=13c11=24` and 24."""
    result = values[0]
    text = f"{operation}{labels[0]}{result}"
    for label, value in zip(labels[1:], values[1:], strict=True):
        result = COMBINE[operation](result, value)
        text += f"{label}{value}={result}"
    return text, result


def _draw_number(rng: Random, divisor: int, size: tuple[int, int]) -> str:
    """A number that the divisor divides in about half of all draws."""
    count = rng.randint(*size)
    smallest, largest = 10 ** (count - 1), 10**count - 1
    if rng.random() < 0.4:
        return str(rng.randint(-(-smallest // divisor), largest // divisor) * divisor)
    return str(rng.randint(smallest, largest))


def _division(number: str, divisor: int) -> str:
    """Long division by rewriting: the two leading digits become their remainder."""
    steps = [number]
    while len(number) > 1:
        number = str(int(number[:2]) % divisor) + number[2:]
        steps.append(number)
    return "=".join((*steps, "no" if int(number) else "yes"))


def _listing(labels: str, bodies: Sequence[str]) -> str:
    return "".join(f"{label}:{body}," for label, body in zip(labels, bodies, strict=True))
