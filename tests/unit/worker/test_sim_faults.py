"""Faults on command: when they come, what they do, and when they are over."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.contract import Load
from multiverse_worker.engines.sim.engine import SimEngine
from multiverse_worker.engines.sim.faults import Fault, FaultKind, Faults, parse_faults
from tests.unit.worker.client import Client, text
from tests.unit.worker.simulated import make_sim
from tests.unit.worker.test_sim_timing import Time

LOAD = Load(running=3, waiting=2, leases=1, kv_cells_free=100, kv_cells=1000)


@dataclass
class Scene:
    """An engine whose faults are noted instead of carried out."""

    text: str = ""
    control: Path | None = None
    time: Time = field(default_factory=Time)
    said: list[str] = field(default_factory=list)

    def faults(self) -> Faults:
        faults = Faults(self.text, self.control, self.time, die=lambda: self.said.append("died"))
        faults.break_streams = lambda: self.said.append("broke")
        return faults

    def engine(self) -> SimEngine:
        options: dict[str, Any] = {"clock": self.time, "sleep": self.time.sleep}
        return make_sim(faults=self.faults(), **options)


def test_the_language_is_read() -> None:
    assert parse_faults("die@after=100tokens; stall@after=2.5s,for=3s;break_stream") == [
        Fault(FaultKind.DIE, after_tokens=100),
        Fault(FaultKind.STALL, after_s=2.5, for_s=3.0),
        Fault(FaultKind.BREAK_STREAM),
    ]
    [lie] = parse_faults("lie_load@running=0,kv_cells_free=5,for=1s\n")
    assert (lie.lies, lie.for_s) == ({"running": 0, "kv_cells_free": 5}, 1.0)
    assert parse_faults(" \n; ") == []


@pytest.mark.parametrize(
    "text",
    ["burn", "die@when=2s", "die@after=2", "stall@for=3tokens", "die@running=1", "lie_load@x=1"],
)
def test_what_cant_be_read_is_named(text: str) -> None:
    with pytest.raises(InvalidRequest, match=text.partition("@")[0]):
        parse_faults(f"die@after=9s; {text}")


def test_a_fault_comes_once_when_so_many_tokens_were_drawn() -> None:
    scene = Scene("die@after=10tokens;break_stream@after=12tokens")
    client = Client(scene.engine())
    branch = client.start(text(1), max_tokens=30)
    seen = {}
    while branch not in client.outcomes:
        client.step()
        seen[len(client.said(branch))] = list(scene.said)
    assert seen[9] == []
    assert seen[10] == seen[11] == ["died"]
    assert seen[12] == seen[30] == ["died", "broke"]


def test_a_fault_comes_after_so_many_seconds_though_nothing_runs() -> None:
    scene = Scene("die@after=5s")
    engine = scene.engine()
    for scene.time.now in (0.0, 4.9):
        engine.tick()
    assert scene.said == []
    scene.time.now = 5.0
    engine.tick()
    assert scene.said == ["died"]


def test_a_stalled_engine_says_nothing_and_then_goes_on_where_it_was() -> None:
    undisturbed = Client(make_sim()).run(text(1), max_tokens=20)
    scene = Scene("stall@after=8tokens,for=3s")
    client = Client(scene.engine())
    branch = client.start(text(1), max_tokens=20)
    while len(client.said(branch)) < 8:
        client.step()
    begun = scene.time.now
    while len(client.said(branch)) == 8:
        client.step()
    assert scene.time.now - begun == pytest.approx(3.0, abs=0.1)
    assert client.outcome(branch).ids == undisturbed.ids


def test_a_lie_is_told_while_it_lasts() -> None:
    scene = Scene("lie_load@after=1s,for=2s,running=0,kv_cells_free=999")
    faults = scene.faults()
    told = []
    for scene.time.now in (0.0, 1.0, 2.9, 3.1):
        load = faults.reported(LOAD)
        told.append((load.running, load.waiting, load.kv_cells_free))
    assert told == [(3, 2, 100), (0, 2, 999), (0, 2, 999), (3, 2, 100)]


# -- the control file ----------------------------------------------------------------------------


def write(control: Path, text: str, at: int) -> None:
    """As a change at second `at`: the clock of a file system may be coarse."""
    control.write_text(text)
    os.utime(control, (at, at))


def test_a_control_file_is_obeyed_when_it_appears_changes_and_goes(tmp_path: Path) -> None:
    control = tmp_path / "faults"
    scene = Scene(control=control)
    faults = scene.faults()
    faults.poll()
    assert not faults.stalled
    write(control, "stall", 1)
    faults.poll()
    assert faults.stalled
    write(control, "lie_load@waiting=9", 2)
    faults.poll()
    assert (faults.stalled, faults.reported(LOAD).waiting) == (False, 9)
    control.unlink()
    faults.poll()
    assert faults.reported(LOAD) == LOAD


def test_what_stands_in_a_control_file_counts_from_then_on(tmp_path: Path) -> None:
    control = tmp_path / "faults"
    scene = Scene(control=control)
    faults = scene.faults()
    faults.count(100)
    write(control, "break_stream@after=10tokens", 1)
    faults.poll()
    faults.count(9)
    assert scene.said == []
    faults.count(1)
    faults.poll()
    assert scene.said == ["broke"]
    write(control, "break_stream", 2)
    faults.poll()
    assert scene.said == ["broke", "broke"]


def test_a_control_file_that_cant_be_read_is_told_and_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    control = tmp_path / "faults"
    faults = Scene(control=control).faults()
    write(control, "explode", 1)
    with caplog.at_level(logging.WARNING):
        faults.poll()
    assert "explode" in caplog.text
    assert not faults.stalled
