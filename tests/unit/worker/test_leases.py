"""When a lease ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from multiverse_shared.tree import Text
from multiverse_worker.contract import BranchId, RequestId, Start
from multiverse_worker.leases import (
    LOST_STREAM_GRACE_S,
    QUIET_REQUEST_S,
    Lease,
    LeaseBook,
)

MOMENT = 0.001


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Book:
    """A lease book with its clock; what is held is a name."""

    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.leases: LeaseBook[str] = LeaseBook(self.clock)

    def grant(self, held: str, request: str = "r", stream: int = 1) -> Lease[str]:
        start = Start(BranchId(stream, 0), request, (), 0)
        return self.leases.grant(held, start, held.encode(), (Text((1,)),))

    def expired_after(self, seconds: float, *live: str, stream: int = 1) -> list[str]:
        self.clock.now += seconds
        requests = [RequestId(stream, name) for name in live]
        return [lease.held for lease in self.leases.expired(requests)]


@pytest.fixture
def book() -> Book:
    return Book()


def test_the_times_are_those_of_the_design() -> None:
    assert (LOST_STREAM_GRACE_S, QUIET_REQUEST_S) == (5.0, 60.0)


def test_a_lease_ends_after_60_s_in_which_its_request_is_quiet(book: Book) -> None:
    book.grant("a")
    assert book.expired_after(QUIET_REQUEST_S - MOMENT) == []
    assert book.expired_after(MOMENT) == ["a"]
    assert len(book.leases) == 0


def test_a_live_branch_of_the_request_starts_the_quiet_time_anew(book: Book) -> None:
    book.grant("a", "live")
    book.grant("b", "quiet")
    assert book.expired_after(QUIET_REQUEST_S - MOMENT, "live") == []
    assert book.expired_after(MOMENT, "live") == ["b"]
    assert book.expired_after(QUIET_REQUEST_S - MOMENT) == []
    assert book.expired_after(MOMENT) == ["a"]


def test_a_request_that_lives_long_keeps_its_leases(book: Book) -> None:
    book.grant("a")
    for _ in range(10):
        assert book.expired_after(QUIET_REQUEST_S * 2, "r") == []


def test_leases_end_5_s_after_their_stream_is_lost_though_the_request_lives(book: Book) -> None:
    book.grant("a", stream=1)
    book.grant("b", stream=2)
    book.leases.lose_stream(1)
    assert book.expired_after(LOST_STREAM_GRACE_S - MOMENT, "r") == []
    assert book.expired_after(MOMENT, "r") == ["a"]
    assert [lease.held for lease in book.leases] == ["b"]


def test_losing_a_stream_twice_does_not_extend_the_grace(book: Book) -> None:
    book.grant("a")
    book.leases.lose_stream(1)
    assert book.expired_after(LOST_STREAM_GRACE_S - MOMENT) == []
    book.leases.lose_stream(1)
    assert book.expired_after(MOMENT) == ["a"]


def test_a_lease_ends_once(book: Book) -> None:
    lease = book.grant("a")
    assert book.leases.end(lease.id, 1) is lease
    assert book.leases.end(lease.id, 1) is None
    assert book.leases.end("never there", 1) is None
    assert book.expired_after(QUIET_REQUEST_S * 2) == []


def test_a_lease_ends_for_its_own_stream_only(book: Book) -> None:
    lease = book.grant("a", stream=1)
    assert book.leases.end(lease.id, 2) is None
    assert book.leases.end(lease.id, 1) is lease


def test_a_request_of_the_same_name_in_another_stream_is_another_one(book: Book) -> None:
    book.grant("a", "same", stream=1)
    book.grant("b", "same", stream=2)
    assert [lease.held for lease in book.leases.of_request(RequestId(2, "same"))] == ["b"]
    assert book.expired_after(QUIET_REQUEST_S, "same", stream=2) == ["a"]


def test_each_lease_has_a_name_of_its_own(book: Book) -> None:
    ids = [book.grant("a", stream=stream).id for stream in (1, 1, 2, 11)]
    assert len(set(ids)) == len(ids)


def test_a_base_is_found_by_key_in_its_own_stream_only(book: Book) -> None:
    lease = book.grant("a", stream=1)
    assert book.leases.by_key(b"a", 1) is lease
    assert book.leases.by_key(b"a", 2) is None
    assert book.leases.by_key(b"b", 1) is None


def test_two_leases_on_one_context_end_one_by_one(book: Book) -> None:
    first, second = book.grant("a"), book.grant("a")
    book.leases.end(first.id, 1)
    assert book.leases.by_key(b"a", 1) is second


def test_the_leases_of_a_request_are_found_together(book: Book) -> None:
    book.grant("a", "x")
    book.grant("b", "y")
    book.grant("c", "x")
    assert [lease.held for lease in book.leases.of_request(RequestId(1, "x"))] == ["a", "c"]


def test_leases_may_end_while_all_are_walked_through(book: Book) -> None:
    for name in "abc":
        book.grant(name)
    for lease in book.leases:
        book.leases.end(lease.id, 1)
    assert len(book.leases) == 0
