"""Random answers, well-formed and malformed alike, under random limits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from multiverse_shared.effects import Finished
from multiverse_shared.grammar import Ids
from multiverse_shared.limits import Limits
from multiverse_shared.tree import Block, Context, count
from multiverse_shared.usage import usage
from tests.unit.shared.fake_engine import Record, Schedule, run
from tests.unit.shared.stage import LONG_TEMPLATES, Stage
from tests.unit.shared.vocabularies import EOS, TAGS

# What a model that knows the dialect writes behind a token; behind text, the last row.
_USUAL: dict[str, list[str]] = {
    "<Parallel>": ["<Goal>"],
    "<Goal>": ["<Outline>"],
    "<Outline>": [*"1234a"],
    "</Outline>": ["<Outline>", "</Goal>"],
    "</Conclusion>": ["</Parallel>"],
    "</Parallel>": ["a", "a", "</Path>", "</Path>", "<Parallel>"],
    **{digit: [*":::...", "1", "2", "3"] for digit in "123"},
    ".": [*"123456"],
    ":": ["<Parallel>", *"aa"],
    "": [*"aaaaaaa1:", *["<Parallel>", "</Outline>", "</Path>", "</Conclusion>"] * 8, EOS],
}
_ANYTHING = [*TAGS, EOS, *"ab12.: "]
_stages = {"short": Stage.build(), "long": Stage.build(**LONG_TEMPLATES)}


@dataclass(frozen=True, slots=True)
class RandomModel:
    """Its tokens depend on the path, their number in it and the last token only."""

    stage: Stage
    seed: int
    wildness: float  # share of tokens that ignore the dialect

    def __call__(self, path: str, index: int, last: int, banned: Ids) -> int:
        rng = random.Random(f"{self.seed} {path} {index}")
        usual = _USUAL.get(self.stage.tokenizer.decode([last]), _USUAL[""])
        while True:
            wild = rng.random() < self.wildness
            (token,) = self.stage.ids(rng.choice(_ANYTHING if wild else usual))
            if token not in banned:
                return token
            usual = _USUAL[""]


@dataclass(frozen=True, slots=True)
class Case:
    """One answer: who writes it, and under which limits."""

    templates: str
    seed: int
    wildness: float
    limits: Limits
    may_fork: bool

    @property
    def stage(self) -> Stage:
        return _stages[self.templates]

    def run(self, schedule: Schedule | None = None) -> Record:
        interpreter = self.stage.interpreter(self.limits, may_fork=self.may_fork)
        return run(interpreter, RandomModel(self.stage, self.seed, self.wildness), schedule)


_generous = st.builds(
    Limits,
    max_total_tokens=st.integers(100, 500),
    max_paths=st.integers(2, 5),
    max_depth=st.sampled_from([3, 2]),
    max_blocks=st.sampled_from([8, 20]),
)
_tight = st.one_of(
    st.tuples(st.just("max_total_tokens"), st.integers(0, 100)),
    st.tuples(st.just("max_critical_tokens"), st.integers(1, 300)),
    st.tuples(st.just("max_paths"), st.just(1)),
    st.tuples(st.just("max_depth"), st.integers(0, 1)),
    st.tuples(st.just("max_path_tokens"), st.integers(1, 100)),
    st.tuples(st.just("max_goal_tokens"), st.integers(1, 60)),
    st.tuples(st.just("max_blocks"), st.integers(0, 3)),
)
_limits = st.builds(
    lambda limits, tight: replace(limits, **dict(tight)), _generous, st.lists(_tight, max_size=2)
)
cases = st.builds(
    Case,
    st.sampled_from(list(_stages)),
    st.integers(0, 1 << 32),
    st.sampled_from([0.0, 0.0, 0.02, 0.02, 0.1, 0.5]),
    _limits,
    st.sampled_from([True] * 9 + [False]),
)
small_cases = st.builds(
    Case,
    st.sampled_from(list(_stages)),
    st.integers(0, 1 << 32),
    st.sampled_from([0.0, 0.02]),
    st.builds(
        Limits,
        max_total_tokens=st.integers(150, 300),
        max_paths=st.integers(2, 3),
        max_blocks=st.integers(2, 3),
    ),
    st.just(True),
)


def assert_within_limits(record: Record, limits: Limits, *, may_fork: bool) -> None:
    """The answer is over, and each of its limits holds."""
    counts = usage(record.context, 1)
    critical = limits.max_critical_tokens
    assert counts.generated <= limits.max_total_tokens
    assert counts.critical <= (limits.max_total_tokens if critical is None else critical)
    blocks = 0
    for path, items in paths_of(record.context[1:]):
        for block in (item for item in items if isinstance(item, Block)):
            blocks += 1
            assert block.closed
            assert 1 <= len(block.paths) <= limits.max_paths
            assert path.count(".") < limits.max_depth
            assert all(count(inner) <= limits.max_path_tokens for inner in block.paths)
    assert blocks <= (limits.max_blocks if may_fork else 0)
    assert len(record.of_type(Finished)) == 1
    assert isinstance(record.events[-1], Finished)


def paths_of(items: Context, path: str = "0") -> Iterator[tuple[str, Context]]:
    """Each path of an answer and its items."""
    yield path, items
    number = 0
    for item in items:
        if isinstance(item, Block):
            for inner in item.paths:
                number += 1
                yield from paths_of(inner, f"{path}.{number}")
