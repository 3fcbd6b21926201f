"""The state machine of one path: the legal flow, and every tag where it does not belong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multiverse_shared.dialect import Tag, load_dialect
from multiverse_shared.grammar import Grammar
from multiverse_shared.machine import Irregular, Machine, Phase, Verdict
from multiverse_shared.scanner import Lexeme, TagScanner

# What brings a path from its beginning into each phase; `|` stands for the join.
WAYS: dict[Phase | None, str] = {
    None: "ab",
    Phase.OPENED: "<Parallel>",
    Phase.PLAN: "<Parallel><Goal><Outline>1:a</Outline>",
    Phase.OUTLINE: "<Parallel><Goal><Outline>1:a</Outline><Outline>2:",
    Phase.FORKED: "<Parallel><Goal><Outline>1:a</Outline></Goal>",
    Phase.CONCLUSION: "<Parallel><Goal><Outline>1:a</Outline></Goal>|so",
    Phase.CONCLUDED: "<Parallel><Goal><Outline>1:a</Outline></Goal>|so</Conclusion>",
}
LEGAL = {
    (None, Tag.BLOCK_OPEN),
    (Phase.CONCLUSION, Tag.BLOCK_OPEN),
    (Phase.OPENED, Tag.PLAN_OPEN),
    (Phase.PLAN, Tag.OUTLINE_OPEN),
    (Phase.OUTLINE, Tag.OUTLINE_CLOSE),
    (Phase.PLAN, Tag.PLAN_CLOSE),
    (Phase.CONCLUSION, Tag.JOIN_CLOSE),
    (Phase.CONCLUDED, Tag.BLOCK_CLOSE),
}
# What a model left out is supplied: the opening of a block, or its end.
TOLERATED = {
    (None, Tag.PLAN_OPEN): Irregular.PLAN_WITHOUT_BLOCK,
    (Phase.CONCLUSION, Tag.PLAN_OPEN): Irregular.PLAN_WITHOUT_BLOCK,
    (Phase.CONCLUDED, Tag.PLAN_OPEN): Irregular.PLAN_WITHOUT_BLOCK,
    (Phase.CONCLUDED, Tag.BLOCK_OPEN): Irregular.BLOCK_WITHOUT_END,
}


def read(grammar: Grammar, text: str, *, is_path: bool = False) -> tuple[Machine, list[Verdict]]:
    """The machine after `text`, and what each of its tags and characters was."""
    machine, verdicts = Machine(grammar, is_path), []
    for number, part in enumerate(text.split("|")):
        machine = machine.joined() if number else machine
        scanner = TagScanner(grammar)
        for token in grammar.tokenizer.encode_trusted(part):
            for lexeme in scanner.feed(token):
                machine, verdict = machine.step(lexeme)
                verdicts.append(verdict)
    return machine, verdicts


def structure(machine: Machine) -> list[tuple[Phase, int]]:
    """Phases of the open blocks, and how many outlines each has."""
    return [(block.phase, len(block.outlines)) for block in machine.stack]


def test_each_way_leads_into_its_phase(grammar: Grammar) -> None:
    for phase, way in WAYS.items():
        top = read(grammar, way)[0].top
        assert (top.phase if top else None) is phase


def test_a_whole_block_is_structure_and_leaves_nothing_open(grammar: Grammar) -> None:
    machine, verdicts = read(
        grammar,
        "<Parallel><Goal><Outline>1</Outline></Goal>|x</Conclusion></Parallel>y",
    )
    tag, text = Verdict.TAG, Verdict.TEXT
    plan = [tag, tag, tag, text, tag, Verdict.PLAN_CLOSED]
    assert verdicts == [*plan, text, tag, tag, text]
    assert machine == Machine(grammar, is_path=False)


def test_outlines_are_kept_as_ids_and_belong_to_the_open_plan_only(grammar: Grammar) -> None:
    encode = grammar.tokenizer.encode
    machine, _ = read(grammar, "<Parallel><Goal>x<Outline>1:a</Outline>y<Outline>2:</Outline>")
    assert machine.planning is machine.top
    assert machine.top is not None
    assert machine.top.outlines == (tuple(encode("1:a")), tuple(encode("2:")))
    assert structure(read(grammar, WAYS[Phase.CONCLUSION])[0]) == [(Phase.CONCLUSION, 0)]


def test_a_block_opens_inside_a_conclusion_and_closes_before_it(grammar: Grammar) -> None:
    inner = "<Parallel><Goal><Outline>1:b</Outline></Goal>"
    machine, verdicts = read(grammar, WAYS[Phase.CONCLUSION] + inner)
    assert structure(machine) == [(Phase.CONCLUSION, 0), (Phase.FORKED, 1)]
    assert verdicts[-1] is Verdict.PLAN_CLOSED
    closed = WAYS[Phase.CONCLUSION] + inner + "|z</Conclusion></Parallel>"
    assert structure(read(grammar, closed)[0]) == [(Phase.CONCLUSION, 0)]
    assert read(grammar, closed + "</Conclusion></Parallel>")[0].stack == ()


def test_blocks_follow_one_another(grammar: Grammar) -> None:
    block = "<Parallel><Goal><Outline>1:b</Outline></Goal>|z</Conclusion></Parallel>"
    machine, verdicts = read(grammar, block + "text" + block)
    assert machine.stack == ()
    assert verdicts.count(Verdict.PLAN_CLOSED) == 2


def test_a_path_is_closed_by_its_own_tag_and_the_root_by_none(grammar: Grammar) -> None:
    assert read(grammar, "ab</Path>", is_path=True)[1][-1] is Verdict.PATH_CLOSED
    assert read(grammar, "ab</Path>", is_path=False)[1][-1] is Verdict.TEXT


@pytest.mark.parametrize("is_path", [False, True])
@pytest.mark.parametrize("tag", list(load_dialect("multiverse").tags))
@pytest.mark.parametrize("phase", list(WAYS))
def test_a_tag_is_structure_in_its_phase_and_text_in_every_other(
    grammar: Grammar, phase: Phase | None, tag: Tag, is_path: bool
) -> None:
    before, _ = read(grammar, WAYS[phase], is_path=is_path)
    after, verdict = before.step(Lexeme(grammar.tags[tag], tag))
    if (phase, tag) in LEGAL:
        assert verdict is (Verdict.PLAN_CLOSED if tag is Tag.PLAN_CLOSE else Verdict.TAG)
        assert structure(after) != structure(before)
        assert after.irregular is None
    elif (phase, tag) in TOLERATED:
        assert verdict is Verdict.TAG
        assert structure(after) != structure(before)
        assert after.irregular is TOLERATED[phase, tag]
    elif is_path and tag is Tag.PATH_CLOSE and phase in (None, Phase.CONCLUDED):
        assert verdict is Verdict.PATH_CLOSED
        assert structure(after) == []
        assert after.irregular is (Irregular.BLOCK_WITHOUT_END if phase else None)
    else:
        assert verdict is Verdict.TEXT
        assert structure(after) == structure(before)
        assert after.irregular is Irregular.STRAY_TAG


def test_an_irregularity_is_that_of_the_last_lexeme_only(grammar: Grammar) -> None:
    stray, _ = read(grammar, "ab</Path>")
    assert stray.irregular is Irregular.STRAY_TAG
    assert read(grammar, "ab</Path>c")[0].irregular is None


def test_a_plan_without_outlines_is_irregular(grammar: Grammar) -> None:
    assert read(grammar, "<Parallel><Goal></Goal>")[0].irregular is Irregular.NO_OUTLINES
    assert read(grammar, WAYS[Phase.FORKED])[0].irregular is None


def test_a_tag_as_a_word_in_an_outline_is_part_of_the_outline(grammar: Grammar) -> None:
    machine, _ = read(grammar, "<Parallel><Goal><Outline>1:<Path></Goal><Goal>a</Outline>")
    assert machine.top is not None
    spelled = grammar.tokenizer.decode(machine.top.outlines[0])
    assert spelled == "1:<Path></Goal><Goal>a"


def test_all_that_is_written_after_the_plan_opens_counts_as_plan(grammar: Grammar) -> None:
    for text, tokens in (("", 0), ("x", 1), ("<Outline>1:", 3), ("<Outline>1:</Outline>,", 5)):
        machine, _ = read(grammar, f"<Parallel><Goal>{text}")
        assert machine.planning is not None
        assert machine.planning.plan_tokens == tokens
    assert read(grammar, WAYS[Phase.FORKED])[0].planning is None


def test_the_system_closes_a_plan_without_the_outline_that_is_still_open(grammar: Grammar) -> None:
    machine, _ = read(grammar, WAYS[Phase.OUTLINE] + "half")
    closed = machine.close_plan()
    assert structure(closed) == [(Phase.FORKED, 1)]
    assert closed.top is not None
    assert closed.top.outline == ()
    assert closed.planning is None


def test_a_step_does_not_change_the_machine_it_starts_from(grammar: Grammar) -> None:
    machine, _ = read(grammar, WAYS[Phase.PLAN])
    copy = replace(machine)
    machine.step(Lexeme(grammar.tags[Tag.OUTLINE_OPEN], Tag.OUTLINE_OPEN))
    machine.close_plan()
    assert machine == copy
