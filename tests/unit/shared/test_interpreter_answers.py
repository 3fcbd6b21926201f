"""Well-formed answers: plan, fork, paths, join and conclusion."""

from __future__ import annotations

import pytest

from multiverse_shared.effects import (
    Finished,
    Forked,
    Joined,
    Kind,
    PathEnded,
    Reason,
    StartBranch,
    Stop,
    Tokens,
)
from multiverse_shared.tree import Block, linearise, normalise
from tests.unit.shared.stage import LONG_TEMPLATES, Stage

PLAN = "<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline></Goal>"
ANSWER = {
    "0": f"Hi {PLAN}so</Conclusion></Parallel> end",
    "0.1": "x</Path>",
    "0.2": "yy</Path>",
}
NESTED = {
    "0": f"{PLAN}so</Conclusion></Parallel>",
    "0.1": "p<Parallel><Goal><Outline>1:c</Outline></Goal>w</Conclusion></Parallel>q</Path>",
    "0.1.1": "r</Path>",
    "0.2": "y</Path>",
}


def test_an_answer_without_a_plan_is_one_branch(stage: Stage) -> None:
    record = stage.perform({"0": "just text"})
    assert stage.answer(record) == ["just text"]
    assert list(record.starts) == ["0#1"]
    assert record.events[-1] == Finished(Reason.STOP)


def test_an_answer_forks_after_its_plan_and_goes_on_from_all_paths(stage: Stage) -> None:
    record = stage.perform(ANSWER)
    assert stage.answer(record) == [
        f"Hi {PLAN}",
        [["«<Path>1:»", "x</Path>"], ["«<Path>2:»", "yy</Path>"]],
        "«<Conclusion>»",
        "so</Conclusion></Parallel> end",
    ]
    assert stage.told(record.context[:1]) == ["Q?"]


def test_each_step_of_an_answer_is_an_event_of_its_path(stage: Stage) -> None:
    ids = stage.ids
    by_path = stage.perform(ANSWER).by_path()
    plan = by_path["0"][:10]
    assert [(event.kind, event.ids) for event in plan if isinstance(event, Tokens)] == [
        (Kind.TEXT, ids("Hi ")),
        (Kind.TAG, ids("<Parallel><Goal><Outline>")),
        (Kind.TEXT, ids("1:a")),
        (Kind.TAG, ids("</Outline><Outline>")),
        (Kind.TEXT, ids("2:b")),
        (Kind.TAG, ids("</Outline></Goal>")),
        (Kind.WRITTEN, ids("<Conclusion>")),
        (Kind.TEXT, ids("so")),
    ]
    assert by_path["0"][6] == Forked("0", ("0.1", "0.2"), (ids("1:a"), ids("2:b")))
    assert by_path["0"][7] == Joined("0", ("0.1", "0.2"))
    assert by_path["0"][10:] == [
        Tokens("0", ids("</Conclusion></Parallel>"), Kind.TAG),
        Tokens("0", ids(" end"), Kind.TEXT),
        Finished(Reason.STOP),
    ]
    assert by_path["0.2"] == [
        Tokens("0.2", ids("<Path>2:"), Kind.WRITTEN),
        Tokens("0.2", ids("yy"), Kind.TEXT),
        Tokens("0.2", ids("</Path>"), Kind.TAG),
        PathEnded("0.2", Reason.STOP, forced=False),
    ]


def test_a_path_forks_again_and_joins_before_it_ends(stage: Stage) -> None:
    record = stage.perform(NESTED)
    inner = [
        "«<Path>1:»",
        "p<Parallel><Goal><Outline>1:c</Outline></Goal>",
        [["«<Path>1:»", "r</Path>"]],
        "«<Conclusion>»",
        "w</Conclusion></Parallel>q</Path>",
    ]
    assert stage.answer(record) == [
        PLAN,
        [inner, ["«<Path>2:»", "y</Path>"]],
        "«<Conclusion>»",
        "so</Conclusion></Parallel>",
    ]
    assert record.of_type(Joined) == [Joined("0.1", ("0.1.1",)), Joined("0", ("0.1", "0.2"))]


def test_a_block_opens_inside_a_conclusion(stage: Stage) -> None:
    inner = "<Parallel><Goal><Outline>1:c</Outline></Goal>"
    close = "</Conclusion></Parallel>"
    root = f"{PLAN}so {inner}then{close}finally{close}"
    record = stage.perform({"0": root, "0.1": "x</Path>", "0.2": "</Path>", "0.3": "z</Path>"})
    assert stage.answer(record)[2:] == [
        "«<Conclusion>»",
        f"so {inner}",
        [["«<Path>1:»", "z</Path>"]],
        "«<Conclusion>»",
        f"then{close}finally{close}",
    ]


def test_path_ids_number_on_over_the_blocks_of_a_parent(stage: Stage) -> None:
    block = f"{PLAN}so</Conclusion></Parallel>"
    paths = {f"0.{number}": f"{number}</Path>" for number in range(1, 5)}
    record = stage.perform({"0": block + block, **paths})
    assert [event.paths for event in record.of_type(Forked)] == [("0.1", "0.2"), ("0.3", "0.4")]
    blocks = [item for item in stage.answer(record) if isinstance(item, list)]
    assert blocks == [
        [["«<Path>1:»", "1</Path>"], ["«<Path>2:»", "2</Path>"]],
        [["«<Path>1:»", "3</Path>"], ["«<Path>2:»", "4</Path>"]],
    ]


@pytest.mark.parametrize(
    ("outlines", "labels"),
    [
        (["1:a", "2:b"], ["1", "2"]),
        (["2:a", "1:b"], ["2", "1"]),
        (["2.1:a", "2.2:b"], ["2.1", "2.2"]),
        ([" 3 : a", "4:b"], ["3", "4"]),
        (["5:a", "5:b", "7:c"], ["1", "2", "7"]),
        (["a", "2.:b", "x1:c", ""], ["1", "2", "3", "4"]),
    ],
)
def test_a_header_carries_the_label_of_the_outline_where_it_is_well_formed_and_unique(
    stage: Stage, outlines: list[str], labels: list[str]
) -> None:
    plan = "".join(f"<Outline>{outline}</Outline>" for outline in outlines)
    record = stage.perform({"0": f"<Parallel><Goal>{plan}</Goal>"}, end="</Path>")
    headers = [path[0] for path in stage.answer(record)[1]]
    assert headers == [f"«<Path>{label}:»" for label in labels]


def test_templates_are_written_around_what_the_model_writes() -> None:
    stage = Stage.build(**LONG_TEMPLATES)
    record = stage.perform(ANSWER)
    assert stage.answer(record) == [
        f"Hi {PLAN}",
        "«\n»",
        [["«<Path>1:»", "x</Path>", "«\n»"], ["«<Path>2:»", "yy</Path>", "«\n»"]],
        "«<Conclusion>\n»",
        "so</Conclusion></Parallel> end",
    ]
    block = record.context[3]
    assert isinstance(block, Block)
    assert (block.closed, block.path_offset, block.join_offset) == (True, -1, -1)


def test_paths_start_from_what_stands_before_their_block_and_name_it(stage: Stage) -> None:
    starts = stage.perform(NESTED).starts
    assert list(starts) == ["0#1", "0.1#1", "0.2#1", "0.1.1#1", "0.1#2", "0#2"]
    seen = {name: stage.told(start.context) for name, start in starts.items()}
    inner_plan = "p<Parallel><Goal><Outline>1:c</Outline></Goal>"
    assert seen["0.2#1"] == ["Q?", PLAN, "«<Path>2:»"]
    assert seen["0.1.1#1"] == ["Q?", PLAN, "«<Path>1:»", inner_plan, "«<Path>1:»"]
    assert seen["0#2"][-1] == "«<Conclusion>»"
    blocks = {name: start.block for name, start in starts.items()}
    assert blocks == {
        "0#1": None,
        "0.1#1": "0#1",
        "0.2#1": "0#1",
        "0.1.1#1": "0.1#1",
        "0.1#2": "0#1",
        "0#2": None,
    }


def test_a_join_goes_on_from_the_branch_that_forked_and_all_its_paths(stage: Stage) -> None:
    starts = stage.perform(NESTED).starts
    assert starts["0.1#2"].joins == ("0.1#1", "0.1.1#1")
    assert starts["0#2"].joins == ("0#1", "0.1#2", "0.2#1")
    assert starts["0.2#1"].joins == ()


def test_the_random_draws_of_a_path_go_on_where_its_last_branch_ended(stage: Stage) -> None:
    starts = stage.perform(NESTED).starts
    assert starts["0#1"].draws == starts["0.1#1"].draws == 0
    assert starts["0#2"].draws == len(stage.ids(PLAN))
    assert starts["0.1#2"].draws == len(stage.ids("p<Parallel><Goal><Outline>1:c</Outline></Goal>"))


def test_every_ending_of_a_branch_has_its_tail() -> None:
    stage = Stage.build(**LONG_TEMPLATES)
    starts = stage.perform(ANSWER).starts
    root, path = starts["0#1"], starts["0.1#1"]
    eos, plan, close = (stage.eos,), stage.ids("</Goal>"), stage.ids("</Path>")
    newline = stage.ids("\n")
    assert root.stops == (Stop(eos, (), keep=False), Stop(plan, newline))
    assert root.length_tail == ()
    assert path.stops == (
        Stop(eos, close + newline, keep=False),
        Stop(plan, newline),
        Stop(close, newline),
    )
    assert path.length_tail == close + newline


@pytest.mark.parametrize("templates", [{}, LONG_TEMPLATES], ids=["short", "long"])
def test_what_the_engine_holds_of_an_ended_path_is_what_the_join_goes_on_from(
    templates: dict[str, object],
) -> None:
    stage = Stage.build(**templates)
    record = stage.perform(NESTED | {"0.2": "no end"})
    *prefix, block, _ = record.starts["0#2"].context
    assert isinstance(block, Block)
    for path, branch in zip(block.paths, ("0.1#2", "0.2#1"), strict=True):
        assert normalise(record.decoded[branch].context) == normalise((*prefix, *path))


def test_a_block_is_open_until_its_last_path_ends(stage: Stage) -> None:
    interpreter = stage.interpreter()
    (start,) = interpreter.begin()
    assert isinstance(start, StartBranch)
    assert interpreter.fork_context("0#1") is None
    interpreter.sampled("0#1", stage.ids(PLAN))
    interpreter.finished("0#1", Reason.STOP, 1)
    interpreter.sampled("0.1#1", stage.ids("x</Path>"))
    interpreter.finished("0.1#1", Reason.STOP, 2)
    assert stage.told(interpreter.context) == [
        "Q?",
        PLAN,
        [["«<Path>1:»", "x</Path>"], ["«<Path>2:»"]],
    ]
    block = interpreter.context[-1]
    assert isinstance(block, Block)
    assert not block.closed
    assert interpreter.fork_context("0#1") == interpreter.context[:-1]
    interpreter.sampled("0.2#1", stage.ids("</Path>"))
    interpreter.finished("0.2#1", Reason.STOP, 2)
    block = interpreter.context[2]
    assert isinstance(block, Block)
    assert block.closed
    assert interpreter.fork_context("0#1") is None
    assert interpreter.finished_reason is None


def test_branches_that_were_never_started_are_ignored(stage: Stage) -> None:
    interpreter = stage.interpreter()
    interpreter.begin()
    before = interpreter.context
    assert interpreter.sampled("0.7#1", stage.ids("x")) == []
    assert interpreter.finished("0.7#1", Reason.STOP, 0) == []
    assert interpreter.context == before


def test_an_answer_whose_reader_has_enough_ends_there(stage: Stage) -> None:
    interpreter = stage.interpreter()
    interpreter.begin()
    interpreter.sampled("0#1", stage.ids("ab"))
    assert interpreter.stop() == [Finished(Reason.STOP)]
    assert interpreter.finished_reason is Reason.STOP
    assert interpreter.sampled("0#1", stage.ids("c")) == []
    assert interpreter.finished("0#1", Reason.LENGTH) == []
    assert linearise(interpreter.context[1:]) == stage.ids("ab")
