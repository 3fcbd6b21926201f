"""A deadline may come at any moment: all that is open is closed, and nothing is lost."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from multiverse_shared.effects import (
    AbortBranch,
    Effect,
    Finished,
    PathEnded,
    Reason,
    StartBranch,
    Tokens,
)
from multiverse_shared.interpreter import Interpreter
from multiverse_shared.tree import Block, Context, linearise, texts
from tests.unit.shared.fake_engine import Decoded, decode
from tests.unit.shared.stage import Script, Stage

PLAN = "<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline></Goal>"
WRITTEN = {
    "0": f"Hi {PLAN}so</Conclusion></Parallel> end",
    "0.1": f"p{PLAN}w</Conclusion></Parallel>q</Path>",
    "0.1.1": "rrrr</Path>",
    "0.1.2": "s</Path>",
    "0.2": "yy</Path>",
}
STAGE = Stage.build(path_tail="\n")


def until(interpreter: Interpreter, reports: int, seed: int) -> list[Effect]:
    """All effects of an answer that expires after so many reports of branches drawn at random."""
    rng, model = (
        random.Random(seed),
        Script({path: STAGE.ids(text) for path, text in WRITTEN.items()}, STAGE.eos),
    )
    effects: list[Effect] = []
    live: dict[str, tuple[Decoded, int]] = {}

    def apply(new: list[Effect]) -> None:
        effects.extend(new)
        for effect in new:
            if isinstance(effect, StartBranch):
                live[effect.branch] = (decode(effect, model), 0)
            elif isinstance(effect, AbortBranch):
                del live[effect.branch]

    apply(interpreter.begin())
    for _ in range(reports):
        if not live:
            break
        branch = rng.choice(list(live))
        decoded, done = live[branch]
        if done < len(decoded.ids):
            live[branch] = (decoded, done + 1)
            apply(interpreter.sampled(branch, decoded.ids[done : done + 1]))
        else:
            del live[branch]
            apply(interpreter.finished(branch, decoded.reason, decoded.stop))
    if interpreter.finished_reason is None:
        effects += interpreter.expire()
    return effects


def all_closed(context: Context) -> bool:
    blocks = [item for item in context if isinstance(item, Block)]
    return all(b.closed and all(all_closed(path) for path in b.paths) for b in blocks)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 140), st.integers(0, 1000))
def test_whenever_it_comes_every_block_is_closed_and_every_token_is_in_its_place(
    reports: int, seed: int
) -> None:
    interpreter = STAGE.interpreter()
    effects = until(interpreter, reports, seed)
    assert isinstance(effects[-1], Finished)
    context = interpreter.context
    assert all_closed(context)
    said: dict[str, list[int]] = {}
    for effect in effects:
        if isinstance(effect, Tokens):
            said.setdefault(effect.path, []).extend(effect.ids)
    assert told(context[1:], "0") == {path: tuple(ids) for path, ids in said.items()}
    closing = STAGE.ids("</Path>\n")
    for path, ids in said.items():
        assert path == "0" or tuple(ids[-len(closing) :]) == closing
    ended = [effect.path for effect in effects if isinstance(effect, PathEnded)]
    assert sorted(ended) == sorted(path for path in said if path != "0")
    if effects[-1].reason is Reason.DEADLINE:
        assert interpreter.sampled("0#1", [1]) == []
    assert sum(len(text.ids) for text in texts(context[1:])) == sum(map(len, said.values()))


def told(context: Context, path: str) -> dict[str, tuple[int, ...]]:
    """What stands in each path, its blocks left out."""
    out = {path: tuple(t for item in context if not isinstance(item, Block) for t in item.ids)}
    number = 0
    for item in context:
        if isinstance(item, Block):
            for inner in item.paths:
                number += 1
                out |= told(inner, f"{path}.{number}")
    return {name: ids for name, ids in out.items() if ids}


def test_the_closing_tag_stands_behind_the_block_that_was_open() -> None:
    """Not before it: the tree tells the order of the text."""
    interpreter = STAGE.interpreter()
    until(interpreter, 40, seed=0)
    block = interpreter.context[-1]
    assert isinstance(block, Block)
    first = block.paths[0]
    assert isinstance(first[-2], Block), "the deadline should have come inside the inner block"
    assert linearise(first[-1:]) == STAGE.ids("</Path>\n")
