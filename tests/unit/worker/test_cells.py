"""The cell ledger: free + used = pool, and a cell is free when nobody holds it."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from multiverse_worker.engines.llamacpp.cells import CellLedger, Use
from tests.unit.worker.properties import examples

POOL = 40


class Ledger(RuleBasedStateMachine):
    """Against the plainest model: each sequence is a map from position to a token's name."""

    sequences = Bundle("sequences")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = CellLedger(POOL)
        self.model: dict[int, dict[int, int]] = {}
        self.uses: dict[int, Use] = {}
        self.names = 0
        self.opened = 0

    @property
    def used(self) -> int:
        return len({name for held in self.model.values() for name in held.values()})

    @rule(target=sequences)
    def open(self) -> int:
        self.opened += 1
        self.ledger.open(self.opened)
        self.model[self.opened] = {}
        self.uses[self.opened] = Use.RUNNING
        return self.opened

    @rule(sequence=sequences, count=st.integers(0, 6))
    def append(self, sequence: int, count: int) -> None:
        count = min(count, self.ledger.free)
        start = max(self.model[sequence], default=-1) + 1
        self.ledger.append(sequence, start, count)
        for position in range(start, start + count):
            self.names += 1
            self.model[sequence][position] = self.names

    @rule(source=sequences, start=st.integers(0, 12), length=st.integers(0, 12), into=sequences)
    def copy(self, source: int, start: int, length: int, into: int) -> None:
        held = self.model[source]
        chosen = {at: name for at, name in held.items() if start <= at < start + length}
        if source == into or set(chosen) & set(self.model[into]):
            return
        self.ledger.copy(source, into, start, start + length)
        self.model[into].update(chosen)

    @rule(sequence=consumes(sequences))
    def close(self, sequence: int) -> None:
        self.ledger.close(sequence)
        del self.model[sequence]

    @invariant()
    def adds_up(self) -> None:
        self.ledger.check()
        assert self.ledger.free + self.used == POOL

    @rule(sequence=sequences, use=st.sampled_from(Use))
    def use(self, sequence: int, use: Use) -> None:
        self.ledger.use(sequence, use)
        self.uses[sequence] = use

    @invariant()
    def counts_each_cell_for_the_most_urgent_use(self) -> None:
        seen: set[int] = set()
        counts = []
        for use in Use:
            held = {n for s, h in self.model.items() if self.uses[s] is use for n in h.values()}
            counts.append(len(held - seen))
            seen |= held
        assert self.ledger.census == (*counts, POOL - len(seen))


TestAnyOrderOfOperationsAddsUp = Ledger.TestCase
TestAnyOrderOfOperationsAddsUp.settings = settings(examples(40), stateful_step_count=25)


def test_a_shared_cell_is_free_only_after_its_last_holder() -> None:
    ledger = CellLedger(10)
    for sequence in (1, 2):
        ledger.open(sequence)
    ledger.append(1, 0, 4)
    ledger.copy(1, 2, 0, 3)
    ledger.close(1)
    assert ledger.free == 7
    ledger.close(2)
    assert ledger.free == 10
    ledger.check()


def test_a_copy_takes_only_the_positions_asked_for() -> None:
    ledger = CellLedger(10)
    for sequence in (1, 2):
        ledger.open(sequence)
    ledger.append(1, 0, 6)
    ledger.copy(1, 2, 2, 4)
    ledger.close(1)
    assert ledger.census.running == 2


def test_a_sequence_opens_once() -> None:
    ledger = CellLedger(10)
    ledger.open(1)
    with pytest.raises(AssertionError, match="in use"):
        ledger.open(1)
