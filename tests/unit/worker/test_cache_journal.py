"""What a cache holds is told in bounded messages, and whoever keeps to the numbers has it all."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_shared.keys import short_key
from multiverse_worker.cache_journal import CacheChanges, CacheJournal, CacheTelling
from tests.unit.worker.client import Client
from tests.unit.worker.test_random_use import Clock, Router, any_engine


def key(number: int) -> bytes:
    return number.to_bytes(8, "big") + b"the rest of the key"


class Watcher:
    """Keeps to the numbers, as a router does; what it `believes` is what it heard."""

    def __init__(self) -> None:
        self.believes: set[int] = set()
        self.heard = pb.CacheHeard()

    def hear(self, changes: pb.CacheChanges) -> None:
        if changes.anew:
            self.believes.clear()
        else:
            assert (changes.cache, changes.after) == (self.heard.cache, self.heard.sequence)
        assert not set(changes.held) & set(changes.gone)
        self.heard = pb.CacheHeard(cache=changes.cache, sequence=changes.sequence)
        self.believes |= set(changes.held)
        self.believes -= set(changes.gone)


def told(telling: CacheTelling, watcher: Watcher) -> list[pb.CacheChanges]:
    """All that there is to tell at the moment."""
    messages = []
    while (message := telling.next()) is not None:
        messages.append(message)
        watcher.hear(message)
    return messages


def test_changes_that_make_up_for_each_other_are_none() -> None:
    changes = CacheChanges()
    changes.held(key(1))
    changes.held(key(2))
    changes.gone(key(1))
    assert changes.take() == [(2, True)]
    changes.gone(key(2))
    changes.held(key(2))
    assert changes.take() == []


def test_a_list_comes_in_messages_of_bounded_size_and_counts_when_it_is_complete() -> None:
    journal, watcher = CacheJournal(), Watcher()
    journal.add((number, True) for number in range(25))
    telling = CacheTelling(journal, pb.CacheHeard(), at_once=10)
    messages = told(telling, watcher)
    assert [len(message.held) for message in messages] == [10, 10, 5]
    assert [message.anew for message in messages] == [True, False, False]
    assert [message.sequence for message in messages] == [0, 0, 25]
    assert watcher.believes == set(range(25))


def test_a_watch_that_broke_goes_on_with_what_was_missed() -> None:
    journal, watcher = CacheJournal(), Watcher()
    journal.add([(1, True), (2, True)])
    told(CacheTelling(journal, watcher.heard), watcher)
    journal.add([(1, False), (3, True)])
    [message] = told(CacheTelling(journal, watcher.heard), watcher)
    assert (message.anew, message.after, message.sequence) == (False, 2, 4)
    assert (list(message.held), list(message.gone)) == ([3], [1])


def test_a_watcher_who_is_up_to_date_is_told_so_and_then_nothing() -> None:
    journal, watcher = CacheJournal(), Watcher()
    assert len(told(CacheTelling(journal, watcher.heard), watcher)) == 1
    [message] = told(CacheTelling(journal, watcher.heard), watcher)
    assert message == pb.CacheChanges(cache=journal.cache)


def test_who_is_too_far_behind_is_told_all_that_is_held() -> None:
    journal, watcher = CacheJournal(kept=5), Watcher()
    journal.add([(1, True), (2, True)])
    telling = CacheTelling(journal, watcher.heard)
    told(telling, watcher)
    journal.add((number, True) for number in range(10, 20))
    journal.add([(1, False)])
    [message] = told(telling, watcher)
    assert message.anew
    assert watcher.believes == {2, *range(10, 20)}


def test_another_cache_is_told_from_its_beginning() -> None:
    first, second, watcher = CacheJournal(), CacheJournal(), Watcher()
    first.add([(1, True)])
    told(CacheTelling(first, watcher.heard), watcher)
    second.add([(7, True)])
    [message] = told(CacheTelling(second, watcher.heard), watcher)
    assert message.anew
    assert (watcher.believes, watcher.heard.cache) == ({7}, second.cache)


def test_a_journal_keeps_no_more_than_is_held_and_its_last_changes() -> None:
    journal = CacheJournal(kept=10)
    for number in range(1000):
        journal.add([(number, True), (number - 3, False)])
    assert journal.held == [997, 998, 999]
    assert journal.after(journal.sequence - 10, 100) is not None
    assert journal.after(journal.sequence - 11, 100) is None


@given(
    st.lists(
        st.one_of(
            st.integers(0, 9),  # this one is held, or not any more
            st.sampled_from(["told", "broken", "behind"]),
        ),
        max_size=60,
    )
)
def test_whoever_keeps_to_the_numbers_has_what_is_held(moments: list[int | str]) -> None:
    journal, watcher = CacheJournal(kept=8), Watcher()
    telling = CacheTelling(journal, watcher.heard, at_once=2)
    for moment in moments:
        if isinstance(moment, int):
            journal.add([(moment, moment not in journal.held)])
        elif moment == "told":
            message = telling.next()
            if message is not None:
                watcher.hear(message)
        else:
            if moment == "behind":
                telling.next()  # and it is lost
            telling = CacheTelling(journal, watcher.heard, at_once=2)
    told(telling, watcher)
    assert watcher.believes == set(journal.held)


@any_engine
@pytest.mark.parametrize("often", [True, False], ids=["each step", "at the end"])
def test_what_an_engine_tells_is_what_it_can_find(
    opened: Any, expected: Callable[..., Any], often: bool
) -> None:
    clock, journal = Clock(), CacheJournal()
    with opened(kv_cells=256, sequences=16, batch_tokens=16, clock=clock) as engine:
        router = Router(Client(engine, limit=20_000), random.Random(11), clock, expected)
        for _ in range(150):
            router.act()
            if often:
                journal.add(engine.cache_changes())
                assert set(journal.held) == {short_key(name) for name in engine.cache.names}
        journal.add(engine.cache_changes())
        assert set(journal.held) == {short_key(name) for name in engine.cache.names}
        assert journal.held
        router.client.settle()
        router.collect()
        for _, outcome in router.ended:
            router.client.release(outcome.finish.lease)
        engine.drop_cached()
        journal.add(engine.cache_changes())
        assert journal.held == []
