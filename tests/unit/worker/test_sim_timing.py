"""How long a simulated step takes, and that the engine takes that long."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.engines.sim.timing import StepTimes
from tests.unit.worker.client import Client, text
from tests.unit.worker.simulated import TIMES, make_sim

MACHINES = ["qwen32b-fp16-4x3090", "smollm2-135m-q8_0-2cores", "smollm2-135m-f16-2cores"]


@dataclass
class Time:
    """Seconds that pass only where something sleeps."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_measured_batches_take_what_was_measured() -> None:
    times = StepTimes.of("qwen32b-fp16-4x3090", prefill_tokens_per_s=2000)
    assert [times.step_ms(k) for k in (1, 2, 4, 18)] == pytest.approx([27.0, 31.7, 36.4, 43.7])


def test_between_measured_batches_time_is_interpolated_and_behind_them_goes_on() -> None:
    assert TIMES.step_ms(3) == pytest.approx(16.0)
    assert TIMES.step_ms(6) == pytest.approx(28.0)


def test_prefill_adds_to_decoding_and_takes_a_step_at_least() -> None:
    assert TIMES.step_ms(2, prefill=50) == pytest.approx(12.0 + 50.0)
    assert TIMES.step_ms(0, prefill=50) == pytest.approx(50.0)
    assert TIMES.step_ms(0, prefill=1) == pytest.approx(10.0)
    assert TIMES.step_ms(0) == 0


def test_context_costs_what_the_simulation_assumes() -> None:
    times = StepTimes(TIMES.curve, 1000, context_ms_per_1000=0.5)
    assert times.step_ms(2, context=4000) == pytest.approx(12.0 + 2.0)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_of_the_table_can_be_chosen(machine: str) -> None:
    assert StepTimes.of(machine, 1000).step_ms(1) > 10


def test_an_unknown_machine_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InvalidRequest, match="smollm2-135m-q8_0-2cores"):
        StepTimes.of("abacus", 1000)


@given(st.integers(1, 500), st.integers(0, 5000))
def test_more_prefill_is_never_faster(decoding: int, prefill: int) -> None:
    assert TIMES.step_ms(decoding, prefill + 1) > TIMES.step_ms(decoding, prefill)


def test_the_engine_takes_the_time_of_its_steps() -> None:
    """Ten tokens of prompt with the first one drawn, then one by one, and the last one's KV."""
    time = Time()
    client = Client(make_sim(clock=time, sleep=time.sleep, speed=1.0))
    client.run(text(*range(10)), max_tokens=5)
    prompt, step = TIMES.step_ms(0, prefill=10), TIMES.step_ms(1)
    assert time.now == pytest.approx((prompt + 5 * step) / 1000)


def test_branches_at_once_take_the_steps_of_one() -> None:
    time = Time()
    client = Client(make_sim(clock=time, sleep=time.sleep, speed=2.0))
    for number in range(4):
        client.start(text(number), max_tokens=50)
    client.step()
    begun = time.now
    for _ in range(20):
        client.step()
    assert time.now - begun == pytest.approx(20 * TIMES.step_ms(4) / 1000 / 2)


def test_without_a_speed_no_time_is_spent() -> None:
    time = Time()
    client = Client(make_sim(clock=time, sleep=time.sleep, speed=0.0))
    client.run(text(*range(10)), max_tokens=5)
    assert time.now == 0


def test_the_engine_reports_what_its_steps_took() -> None:
    time = Time()
    client = Client(make_sim(clock=time, sleep=time.sleep, speed=2.0))
    for number in range(3):
        client.start(text(number, number), max_tokens=5)
    client.settle()
    client.run(text(9), max_tokens=5)
    reported = dict(client.engine.load().step_ms)
    assert reported == {
        1: pytest.approx(TIMES.step_ms(1) / 2),
        3: pytest.approx(TIMES.step_ms(3) / 2),
    }
