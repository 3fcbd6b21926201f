"""Tenants find nothing of each other, and their own again, in whatever engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from multiverse_shared.tree import Block
from tests.unit.worker.client import Client, text
from tests.unit.worker.simulated import sim_engine
from tests.unit.worker.symbolic import symbolic_engine

PROMPT = text(*range(1, 41))
JOINED = (PROMPT, Block(((text(1, 2),), (text(3),))), text(4))


@pytest.mark.parametrize("opened", [symbolic_engine, sim_engine])
@pytest.mark.parametrize("context", [(PROMPT,), JOINED])
def test_what_is_cached_for_one_tenant_is_not_found_by_another(
    opened: Callable[[], AbstractContextManager[Any]], context: tuple[Any, ...]
) -> None:
    with opened() as engine:
        client = Client(engine)
        salts = (b"", b"one", b"two", b"one", b"")
        ends = [client.run(*context, salt=salt).finish for salt in salts]
        for end in ends:
            client.release(end.lease)
        assert [end.reused_tokens for end in ends[:3]] == [0, 0, 0]
        assert all(end.reused_tokens > 30 for end in ends[3:])
        assert len({end.key for end in ends}) == 3
        assert (ends[0].key, ends[1].key) == (ends[4].key, ends[3].key)


def test_a_branch_of_one_tenant_goes_on_from_its_own_lease_only() -> None:
    with symbolic_engine() as engine:
        client = Client(engine)
        plan = client.run(PROMPT, salt=b"one").finish
        own = client.run(text(5), base_key=plan.key, salt=b"one").finish
        other = client.run(text(5), base_key=plan.key, salt=b"two").finish
        assert own.reused_tokens == 40
        assert other.reused_tokens == 0
