"""Random answers, well-formed and malformed alike, under random limits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from multiverse_shared.grammar import Ids
from multiverse_shared.limits import Limits
from multiverse_shared.tree import Block, Context
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
    "": [*"aaaaaaa1:", *["<Parallel>", "</Outline>", "</Path>", "</Conclusion>"] * 5, EOS],
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


cases = st.builds(
    Case,
    st.sampled_from(list(_stages)),
    st.integers(0, 1 << 32),
    st.sampled_from([0.0, 0.02, 0.1, 0.5]),
    st.builds(
        Limits,
        max_total_tokens=st.integers(60, 300) | st.integers(150, 300) | st.integers(0, 60),
        max_critical_tokens=st.none() | st.none() | st.integers(1, 300),
        max_paths=st.integers(1, 5),
        max_depth=st.sampled_from([3, 2, 1, 0]),
        max_path_tokens=st.just(4096) | st.integers(1, 100),
        max_goal_tokens=st.just(1024) | st.integers(1, 60),
        max_blocks=st.sampled_from([8, 20, 3, 1, 0]),
    ),
    st.sampled_from([True, True, True, False]),
)


def paths_of(items: Context, path: str = "0") -> Iterator[tuple[str, Context]]:
    """Each path of an answer and its items."""
    yield path, items
    number = 0
    for item in items:
        if isinstance(item, Block):
            for inner in item.paths:
                number += 1
                yield from paths_of(inner, f"{path}.{number}")
