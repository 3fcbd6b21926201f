"""The tier from another thread: no call waits, answers come by themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.settings import WorkerSettings
from multiverse_worker.tier.block import BlockForm
from multiverse_worker.tier.client import ClientOptions
from multiverse_worker.tier.counts import Cause
from multiverse_worker.tier.launch import launch_tier
from multiverse_worker.tier.settings import TierSettings
from multiverse_worker.tier.tier import Fetch, Tier
from tests.unit.worker.tier.memory_backend import MemoryBackend

NAME = b"a" * 32
WITHIN_S = 20.0


@contextmanager
def running(options: ClientOptions = ClientOptions()) -> Iterator[tuple[Tier, MemoryBackend]]:  # noqa: B008
    made: list[MemoryBackend] = []

    def opened() -> MemoryBackend:
        made.append(MemoryBackend())
        return made[0]

    tier = Tier(opened, BlockForm(), options)
    try:
        yield tier, made[0]
    finally:
        tier.close()
    assert made[0].closed


def until(tier: Tier, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline
        tier.wait(0.1)


def arrived(tier: Tier, fetch: Fetch) -> bytes | Cause:
    until(tier, lambda: fetch.arrived(NAME))
    return fetch.take(NAME)


def test_a_block_goes_out_and_comes_in() -> None:
    with running() as (tier, _):
        put = tier.put(NAME, b"kv")
        until(tier, lambda: put.done)
        assert tier.knows(NAME)
        assert arrived(tier, tier.fetch([NAME])) == b"kv"
        assert tier.counts.totals.stored_blocks == 1


def test_calls_return_while_nothing_is_answered() -> None:
    with running(ClientOptions(timeout_s=0.2)) as (tier, backend):
        backend.gate.clear()
        put, fetch = tier.put(NAME, b"kv"), tier.fetch([NAME])
        assert not put.done
        assert not fetch.arrived(NAME)
        assert arrived(tier, fetch) is Cause.SLOW
        until(tier, lambda: put.done)
        assert tier.counts.totals.unstored == (("slow", 1),)


def test_what_nobody_wants_any_more_makes_room() -> None:
    with running(ClientOptions(in_flight_bytes=100)) as (tier, _):
        put = tier.put(NAME, bytes(90))
        until(tier, lambda: put.done)
        for _ in range(5):  # together more than may wait to be taken
            fetch = tier.fetch([NAME])
            fetch.drop()
        assert arrived(tier, tier.fetch([NAME])) == bytes(90)


def test_who_asks_for_room_first_is_not_turned_away() -> None:
    with running(ClientOptions(in_flight_bytes=100)) as (tier, backend):
        backend.gate.clear()
        assert tier.has_room(500)  # alone it goes, and is turned away
        put = tier.put(NAME, bytes(60))
        assert tier.has_room(40)
        assert not tier.has_room(41)
        tier._loop.call_soon_threadsafe(backend.gate.set)
        until(tier, lambda: put.done)
        assert tier.has_room(100)
        assert tier.counts.totals.unstored == ()


def test_news_is_told_when_a_block_has_gone_out_or_come_in() -> None:
    with running() as (tier, _):
        told = threading.Event()
        tier.on_news = told.set
        put = tier.put(NAME, b"kv")
        assert told.wait(WITHIN_S)
        assert put.done
        told.clear()
        fetch = tier.fetch([NAME])
        assert told.wait(WITHIN_S)
        assert fetch.arrived(NAME)


def test_closing_gives_up_what_is_under_way() -> None:
    with running() as (tier, backend):
        backend.gate.clear()
        put, fetch = tier.put(NAME, b"kv"), tier.fetch([NAME])
    assert put.done
    assert fetch.take(NAME) is Cause.BROKEN


def test_without_a_url_there_is_no_tier() -> None:
    assert launch_tier(TierSettings()) is None


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"tier_url": "http://somewhere"}, "tier_url"),
        ({"tier_secret": "x" * 65}, "tier_secret"),
        ({"tier_timeout_s": 0}, "tier_timeout_s"),
        ({"tier_zstd_level": 20}, "tier_zstd_level"),
    ],
)
def test_settings_that_are_wrong_are_named(settings: dict[str, object], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        TierSettings.model_validate(settings)


def test_a_url_that_is_none_is_named() -> None:
    with pytest.raises(InvalidRequest, match="tier_url"):
        launch_tier(TierSettings(tier_url="redis://host:notaport"))
    with pytest.raises(InvalidRequest, match="knows no option"):
        launch_tier(TierSettings(tier_url="mooncake://host:1?speed=high"))


def test_a_tier_that_is_not_there_does_no_harm() -> None:
    tier = launch_tier(TierSettings(tier_url="redis://127.0.0.1:1"))
    assert tier is not None
    assert arrived(tier, tier.fetch([NAME])) is Cause.BROKEN
    tier.close()


def test_an_engine_that_can_not_send_its_kv_refuses_a_tier() -> None:
    with pytest.raises(ValidationError, match="tier_url needs engine llamacpp or sglang"):
        WorkerSettings(model=Path("none"), engine="sim", tier_url="redis://somewhere")


def test_a_model_on_several_gpus_refuses_a_tier() -> None:
    with pytest.raises(ValidationError, match="tier_url needs tensor_parallel 1"):
        WorkerSettings(
            model=Path("none"), engine="sglang", tensor_parallel=2, tier_url="redis://somewhere"
        )
