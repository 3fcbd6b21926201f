"""The reliability targets in small: `make soak`, `make pressure` and `make long-context`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability import long_context, pressure, soak
from tests.unit.worker.llamas import save_llama

MODEL = Path(__file__).parents[2] / "models" / "multiverse-tiny"

pytestmark = pytest.mark.timeout(300)


async def test_requests_given_up_at_any_moment_leave_nothing_behind() -> None:
    result = await soak.soak(MODEL, requests=60, cancelled=30, at_once=16, seed=1)
    leaked = {name: value for name, value in result.items() if name.startswith("leaked_")}
    assert len(leaked) == 5
    assert not any(leaked.values()), leaked
    assert min(result["cancelled_at"].values()) > 0, result["cancelled_at"]
    assert result["passed"], result


async def test_forking_requests_in_a_pool_of_1_2_trees_end_with_the_tokens_of_a_large_one() -> None:
    result = await pressure.measure(MODEL, requests=4, seed=1)
    assert result["equal"] == result["forked"] == 4
    assert result["revocations"] + result["preemptions"] > 0
    assert result["passed"], result


async def test_a_long_prompt_is_forked_and_joined_without_computing_it_again(
    tmp_path: Path,
) -> None:
    model = save_llama(tmp_path / "long", max_position_embeddings=long_context.CONTEXT)
    result = await long_context.measure(model.path, prompt_tokens=1024, paths=8, path_tokens=8)
    assert result["passed"], result
