"""Whatever a model writes: tree, events and branches of an answer tell the same story."""

from __future__ import annotations

from hypothesis import given, settings

from multiverse_shared.dialect import Tag
from multiverse_shared.effects import Kind, Tokens
from multiverse_shared.grammar import Ids
from multiverse_shared.machine import Machine, Phase, Verdict
from multiverse_shared.scanner import Lexeme
from multiverse_shared.tree import Context, Text, linearise
from tests.unit.shared.fake_engine import Record
from tests.unit.shared.random_answers import Case, cases, paths_of


def own_ids(items: Context, *, written: bool) -> Ids:
    """The tokens of a path itself, of the model or of both authors."""
    texts = [item for item in items if isinstance(item, Text)]
    return tuple(token for text in texts if written or not text.written for token in text.ids)


def all_that_is_sampled_is_kept_but_the_end_of_sequence(case: Case, record: Record) -> None:
    for path, items in paths_of(record.context[1:]):
        kept = own_ids(items, written=False)
        starts = [start for start in record.starts.values() if start.path == path]
        borders = [start.draws for start in starts] + [len(kept)]
        assert borders[:1] == [0] or not starts
        for start, at, end in zip(starts, borders, borders[1:], strict=False):
            sampled = record.decoded[start.branch].ids
            if start.branch in record.aborted:  # what came after the plan was closed is not
                sampled = sampled[: end - at]
            assert kept[at:end] == tuple(token for token in sampled if token != case.stage.eos)


def all_that_is_kept_is_said_by_its_path(case: Case, record: Record) -> None:
    for path, items in paths_of(record.context[1:]):
        assert record.said(path) == own_ids(items, written=True)
        assert record.said(path, Kind.TEXT, Kind.TAG) == own_ids(items, written=False)


def every_path_ends_with_what_closes_a_path(case: Case, record: Record) -> None:
    grammar = case.stage.grammar
    end = grammar.tags[Tag.PATH_CLOSE] + grammar.path_tail
    for path, items in paths_of(record.context[1:]):
        if path != "0":
            ids = own_ids(items, written=True)
            assert ids[-len(end) :] == end
            assert ids[:1] == grammar.tags[Tag.PATH_OPEN]


def a_branch_is_given_exactly_what_its_path_sees(case: Case, record: Record) -> None:
    answer = record.context[1:]
    for start in record.starts.values():
        seen = linearise(whole_of(record.context[:1], answer, start.path))
        given_ids = linearise(start.context)
        assert given_ids == seen[: len(given_ids)]
        assert set(start.joins) <= set(record.starts)
        sampled = record.decoded[start.branch].ids[:1]
        if sampled[0] != case.stage.eos:
            assert seen[len(given_ids) : len(given_ids) + 1] == sampled


def whole_of(prefix: Context, items: Context, path: str) -> Context:
    """All that a path has seen when it ends, given what stands before the answer."""
    way = [int(number) for number in path.split(".")[1:]]
    for wanted in way:
        number = 0
        for at, item in enumerate(items):
            if isinstance(item, Text):
                continue
            if number < wanted <= number + len(item.paths):
                prefix, items = (*prefix, *items[:at]), item.paths[wanted - number - 1]
                break
            number += len(item.paths)
    return (*prefix, *items)


def nothing_is_sampled_between_a_plan_and_its_join(case: Case, record: Record) -> None:
    grammar, limits = case.stage.grammar, case.limits
    for path, events in record.by_path().items():
        machine = Machine(grammar, is_path=path != "0")
        for event in events:
            if not isinstance(event, Tokens):
                continue
            for token in event.ids:
                if event.kind is Kind.WRITTEN:
                    machine = written(machine, token)
                    continue
                assert machine.top is None or machine.top.phase is not Phase.FORKED
                lexeme = Lexeme((token,), grammar.tag_of.get((token,)))
                machine, verdict = machine.step(lexeme)
                assert (verdict is Verdict.TEXT) == (event.kind is Kind.TEXT)
                if machine.planning:
                    assert machine.planning.plan_tokens <= limits.max_goal_tokens
                    assert len(machine.planning.outlines) <= limits.max_paths


def written(machine: Machine, token: int) -> Machine:
    """The machine after a token that the system wrote."""
    tag = machine.grammar.tag_of.get((token,))
    if tag is Tag.PLAN_CLOSE:
        return machine.close_plan()
    return machine.joined() if tag is Tag.JOIN_OPEN else machine


@settings(max_examples=150, deadline=None)
@given(cases)
def test_tree_events_and_branches_tell_the_same_story(case: Case) -> None:
    record = case.run()
    for promise in (
        all_that_is_sampled_is_kept_but_the_end_of_sequence,
        all_that_is_kept_is_said_by_its_path,
        every_path_ends_with_what_closes_a_path,
        a_branch_is_given_exactly_what_its_path_sees,
        nothing_is_sampled_between_a_plan_and_its_join,
    ):
        promise(case, record)
