"""A router that spreads paths over two SGLang workers: what ran on one is joined on the other."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from multiverse_worker.engines.sglang.engine import SglangEngine
from tests.e2e.answers import whole
from tests.sglang.served import routed, served, wait_until_idle
from tests.sglang.test_served import RECORDED


@pytest.fixture(scope="module")
def client(engine: SglangEngine, elsewhere: SglangEngine) -> Iterator[httpx.Client]:
    for running in (engine, elsewhere):
        running.drop_cached()  # what other tests asked for
    with (
        served(engine) as one,
        served(elsewhere) as other,
        routed(one, other, SIBLINGS="spread") as client,
    ):
        yield client


def test_answers_are_the_same_and_joins_fetch_what_ran_elsewhere(
    client: httpx.Client, engine: SglangEngine, elsewhere: SglangEngine
) -> None:
    both = (engine, elsewhere)
    before = [one.load().totals for one in both]
    for prompt in sorted(RECORDED):
        assert whole(client, prompt, parallel="auto", temperature=0)["text"] == RECORDED[prompt]
    for one in both:
        wait_until_idle(one)
    after = [one.load().totals for one in both]
    pairs = list(zip(before, after, strict=True))
    assert all(new.decoded_tokens > old.decoded_tokens for old, new in pairs), "both decoded"
    assert sum(new.tier.fetched_tokens - old.tier.fetched_tokens for old, new in pairs) > 0
    assert all(new.tier.recomputed == old.tier.recomputed for old, new in pairs)
