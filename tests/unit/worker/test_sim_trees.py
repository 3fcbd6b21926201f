"""What the simulator writes is what a model of the dialect could have written."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_shared.effects import Forked, Reason
from multiverse_shared.limits import Limits
from multiverse_shared.reader import read
from multiverse_shared.tree import Context, Text, linearise
from multiverse_worker.contract import BranchId, Start
from multiverse_worker.engines.sim.shapes import (
    BlockShape,
    PathShape,
    TreeDistribution,
    find_path,
    recorded_shapes,
)
from multiverse_worker.engines.sim.trees import AnswerStyle
from tests.unit.worker.client import Client
from tests.unit.worker.properties import examples
from tests.unit.worker.telling import Telling, engine_of, source_of

DIALECTS = ["multiverse", "multiverse-qwen", "npr", "threadweaver"]


def forks_of(shape: PathShape, path: str = "0") -> dict[str, list[int]]:
    """How many paths each block of each path has."""
    blocks = [part for part in shape if isinstance(part, BlockShape)]
    found = {path: [len(block.paths) for block in blocks]}
    children = [child for block in blocks for child in block.paths]
    for number, child in enumerate(children, 1):
        found |= forks_of(child, f"{path}.{number}")
    return {name: forks for name, forks in found.items() if forks}


def blocks_in(shape: PathShape) -> int:
    return sum(len(blocks) for blocks in forks_of(shape).values())


def told_forks(telling: Telling) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for event in telling.events:
        if isinstance(event, Forked):
            found.setdefault(event.path, []).append(len(event.paths))
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("seed", range(5))
def test_answers_are_clean_and_have_the_shape_that_was_drawn(dialect: str, seed: int) -> None:
    source = source_of(dialect, paths=(1, 4), depth=2, blocks=(1, 2), path=(3, 20))
    telling = Telling(source, seed).run()
    assert telling.interpreter.finished_reason is Reason.STOP
    assert told_forks(telling) == forks_of(source._style.shape(seed))
    answer = linearise(telling.interpreter.context)
    assert read(answer, source._grammar, Limits()).irregular == {}


def test_sizes_are_those_that_were_drawn() -> None:
    source = source_of("multiverse", paths=(3, 3), path=(40, 40), conclusion=(9, 9), text=(5, 5))
    telling = Telling(source, 1).run()
    sizes = {
        start.sampling.stream: len(telling.sampled[start.branch])
        for start in telling.starts
        if start.sampling.stream != "0"
    }
    assert sizes == dict.fromkeys(("0.1", "0.2", "0.3"), 40 + 1)  # with the closing tag
    conclusion = telling.starts[-1]
    assert len(telling.sampled[conclusion.branch]) == 9 + 2 + 5 + 1


def test_recorded_answers_fork_as_the_outputs_they_come_from() -> None:
    source = source_of("multiverse-qwen", kind="recorded")
    shapes = ((seed, source._style.shape(seed)) for seed in range(200))
    seed, shape = next((n, s) for n, s in shapes if 2 <= blocks_in(s) <= 5 and len(forks_of(s)) > 1)
    assert shape in recorded_shapes()
    telling = Telling(source, seed).run()
    assert told_forks(telling) == forks_of(shape)


def test_recorded_shapes_are_those_of_real_outputs() -> None:
    shapes = recorded_shapes()
    assert len(shapes) == 135
    assert sum(bool(forks_of(shape)) for shape in shapes) > 60
    assert max(name.count(".") for shape in shapes for name in forks_of(shape)) >= 2


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_that_may_not_fork_is_plain_text_of_the_same_length(dialect: str) -> None:
    source = source_of(dialect, paths=(3, 3), blocks=(2, 2))
    telling = Telling(source, 3, may_fork=False).run()
    [start] = telling.starts
    ids = telling.sampled[start.branch]
    tags = {token for tag in source._grammar.tag_of for token in tag}
    assert set(ids).isdisjoint(tags)
    forking = Telling(source, 3).run()
    root = [s.branch for s in forking.starts if s.sampling.stream == "0"]
    assert len(ids) == sum(len(forking.sampled[branch]) for branch in root)


def test_where_depth_is_used_up_a_path_is_plain_and_ends() -> None:
    source = source_of("multiverse", depth=3, nesting=1.0)
    telling = Telling(source, 4, limits=Limits(max_total_tokens=50_000, max_depth=1)).run()
    assert set(told_forks(telling)) == {"0"}
    answer = linearise(telling.interpreter.context)
    assert read(answer, source._grammar, Limits()).irregular == {}


def ended(context: Context) -> Text:
    last = context[-1]
    assert isinstance(last, Text)
    return last


@examples(25)
@given(
    st.integers(0, 1 << 62),
    st.sampled_from(DIALECTS),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_any_branch_goes_on_alike_from_any_token(
    seed: int, dialect: str, may_fork: bool, rng: Random
) -> None:
    source = source_of(dialect, path=(3, 12), depth=2)
    telling = Telling(source, seed, may_fork=may_fork).run()
    start = rng.choice(telling.starts)
    ids = telling.sampled[start.branch]
    told = rng.randrange(len(ids))
    context = (*start.context[:-1], Text(ended(start.context).ids + tuple(ids[:told])))
    sampling = replace(start.sampling, draws=start.sampling.draws + told)
    again = replace(start, context=context, sampling=sampling, consumes=())
    client = Client(engine_of(source))
    client.begin(again)
    assert list(client.outcome(start.branch).ids) == ids[told:]


def test_seeds_and_paths_write_different_words() -> None:
    source = source_of("multiverse", kind="plain", path=(30, 30))
    texts = set()
    for seed, stream in ((1, "0"), (2, "0"), (1, "0.1"), (1, "0.2")):
        start = Start(BranchId(1, 1), "r", (Text((65,)),), 9)
        sampling = replace(start.sampling, seed=seed, stream=stream)
        script = source.script(replace(start, sampling=sampling), start.context)
        texts.add(tuple(script(index) for index in range(9)))
    assert len(texts) == 4


def test_a_banned_word_is_replaced_by_another() -> None:
    source = source_of("multiverse", kind="plain", path=(30, 30))
    client = Client(engine_of(source))
    free = client.run(Text((65,)), max_tokens=30)
    banned = tuple((token,) for token in set(free.ids[:5]))
    sampling = replace(free.start.sampling, banned=banned)
    ids = client.run(Text((65,)), max_tokens=30, sampling=sampling).ids
    assert set(ids).isdisjoint(token for (token,) in banned)


# -- what a prompt says of its answer ------------------------------------------------------------

STYLE = AnswerStyle("tree", TreeDistribution())


def test_a_prompt_chooses_the_kind_and_the_sizes() -> None:
    directed = STYLE.directed("please sim:recorded, thanks")
    assert directed == replace(STYLE, kind="recorded")
    wide = STYLE.directed("sim:paths=8,depth=2,path=50-90 and so on").distribution
    assert (wide.paths, wide.depth, wide.path) == ((8, 8), 2, (50, 90))


@pytest.mark.parametrize(
    "asked",
    ["sim:paths=999999", "sim:depth=999999", "sim:paths=64,depth=9", "sim:blocks=99999,paths=9"],
)
def test_a_prompt_can_not_ask_for_more_paths_than_a_worker_can_draw(asked: str) -> None:
    trees = STYLE.directed(asked).distribution
    assert trees.blocks[1] * max(2, trees.paths[1]) ** trees.depth <= 2 * 4096
    assert STYLE.directed(asked).shape(1)
    assert STYLE.directed(f"sim:paths=2-4{'7' * 300}") == STYLE


def test_a_prompt_without_a_directive_changes_nothing() -> None:
    for prompt in ("", "simulate:paths=3", "sim: paths=3", "sim:nothing"):
        assert STYLE.directed(prompt) == STYLE


def test_all_branches_of_a_request_follow_its_directive() -> None:
    telling = Telling(source_of("multiverse"), 5, prompt="sim:paths=7,blocks=2 go").run()
    assert told_forks(telling) == {"0": [7, 7]}
    assert all(start.max_tokens for start in telling.starts)
    assert telling.interpreter.finished_reason is Reason.STOP


def test_an_unknown_path_has_no_shape() -> None:
    shape: PathShape = (3, BlockShape((1, 1), ((4,), (5,)), 2), BlockShape((1,), ((6,),), 2))
    assert [find_path(shape, name) for name in ("0", "0.2", "0.3", "0.4", "0.x", "0.1.1")] == [
        shape,
        (5,),
        (6,),
        None,
        None,
        None,
    ]
