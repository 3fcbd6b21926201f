"""With SGLang's HiCache a prompt that was evicted comes back from the host: it is not computed
again, nothing changes, and whatever goes wrong with it is computed."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from multiverse_shared.tree import Text
from multiverse_worker.contract import Ids, Logits, TierTotals
from multiverse_worker.engines.sglang.engine import SglangEngine
from tests.conformance.oracle import Oracle
from tests.sglang.conftest import ARGUMENTS, MODEL
from tests.sglang.cpu_hicache import SPOILT_VARIABLE, run_scheduler
from tests.sglang.player import Player
from tests.sglang.test_reuse import assert_plain_is_right, plain
from tests.unit.worker.answers import Answer
from tests.unit.worker.client import Outcome, Seen

CELLS = 600
HOST_RATIO = 2.0  # as many cells in the host as CELLS times that
ROUNDS = 4  # of crowds: more than the host has room for
LENGTH = 200  # of a prompt
TOLERANCE = 1e-3
_numbers = itertools.count()


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hicache") / "spoilt"


@pytest.fixture(scope="module")
def running(spoilt: Path) -> Iterator[SglangEngine]:
    from sglang.srt.entrypoints.engine import Engine

    from tests.conformance.engines import sglang as open_sglang

    spoilt.write_text("")
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv(SPOILT_VARIABLE, str(spoilt))
        patch.setattr(Engine, "run_scheduler_process_func", staticmethod(run_scheduler))
        engine = open_sglang(
            MODEL,
            MODEL,
            threads,
            kv_cells=CELLS,
            enable_hierarchical_cache=True,
            hicache_ratio=HOST_RATIO,
            hicache_io_backend="direct",
            hicache_mem_layout="layer_first",
            **ARGUMENTS,
        )
    assert isinstance(engine, SglangEngine)
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture
def player(running: SglangEngine, spoilt: Path) -> Iterator[Player]:
    """A stream of its own; afterwards every slot is free."""
    running.drop_cached()
    player = Player(running)
    yield player
    spoilt.write_text("")
    player.settle()
    player.assert_nothing_is_held()


class Step:
    """One prompt and what was said to it, with what the host had to do with it."""

    def __init__(self, player: Player, prompt: Text, salt: bytes = b"") -> None:
        before = player.engine.load().totals.tier
        seen = Seen.by(player.engine)
        self.outcome: Outcome = player.run(
            prompt, request=f"r{next(_numbers)}", max_tokens=12, salt=salt
        )
        player.engine.observer = None
        assert self.outcome.finish.error is None
        player.release(self.outcome.finish.lease)
        after: TierTotals = player.engine.load().totals.tier
        self.rows: dict[int, Logits] = seen.rows[self.outcome.start.branch]
        self.computed = LENGTH - min(self.rows)  # tokens of the prompt
        self.reused = self.outcome.finish.reused_tokens
        self.fetched = after.host_fetched_tokens - before.host_fetched_tokens

    @property
    def ids(self) -> Ids:
        return self.outcome.ids

    def differs_from(self, other: Step) -> float:
        return max(
            float(np.abs(row - other.rows[index]).max())
            for index, row in self.rows.items()
            if index in other.rows
        )


def prompt(tokens: int = LENGTH) -> Text:
    """One that never was, and that looks like no other."""
    number = next(_numbers)
    return Text(tuple((at * at * 7 + at * number + number) % 90 for at in range(tokens)))


def crowd(player: Player) -> None:
    """Something large fills the pool: all that nobody holds in it goes."""
    large = player.run(prompt(CELLS - 20), request=f"r{next(_numbers)}", salt=b"a crowd")
    player.release(large.finish.lease)


def fresh(player: Player, asked: Text) -> Step:
    """The same for a tenant for whom nothing is held anywhere."""
    step = Step(player, asked, b"tenant %d" % next(_numbers))
    assert (step.fetched, step.computed) == (0, LENGTH)
    return step


def assert_same(one: Step, other: Step) -> None:
    assert one.ids == other.ids
    assert one.differs_from(other) <= TOLERANCE


def test_an_evicted_prompt_comes_back_from_the_host_and_is_not_computed(player: Player) -> None:
    asked = prompt()
    first = Step(player, asked)
    assert (first.computed, first.fetched) == (LENGTH, 0)
    crowd(player)
    again = Step(player, asked)
    assert (again.computed, again.fetched, again.reused) == (1, LENGTH - 1, LENGTH - 1)
    assert_same(again, first)
    assert_same(again, fresh(player, asked))
    crowd(player)
    assert Step(player, asked).fetched == LENGTH - 1


def test_only_what_is_not_resident_is_brought_back(player: Player) -> None:
    asked = prompt()
    Step(player, asked)
    crowd(player)
    Step(player, Text(asked.ids[:100]))
    again = Step(player, asked)
    assert (again.computed, again.fetched) == (1, 99)
    assert_same(again, fresh(player, asked))


def test_a_prompt_that_goes_on_from_another_is_computed_from_there(player: Player) -> None:
    asked = prompt()
    Step(player, asked)
    crowd(player)
    longer = Text((*asked.ids[:150], *prompt(50).ids))
    again = Step(player, longer)
    assert (again.computed, again.fetched) == (50, 150)
    crowd(player)  # only its end is not there already
    last = Step(player, longer)
    assert (last.computed, last.fetched) == (1, LENGTH - 1)
    assert_same(last, again)
    assert_same(last, fresh(player, longer))


@pytest.mark.parametrize("salt", [b"another", b""])
def test_another_tenant_gets_nothing(player: Player, salt: bytes) -> None:
    asked = prompt()
    Step(player, asked, b"one")
    crowd(player)
    other = Step(player, asked, salt)
    assert (other.computed, other.fetched) == (LENGTH, 0)
    crowd(player)
    own = Step(player, asked, b"one")
    assert (own.computed, own.fetched) == (1, LENGTH - 1)
    assert_same(own, other)


def test_what_cannot_be_copied_back_is_computed(player: Player, spoilt: Path) -> None:
    asked = prompt()
    Step(player, asked)
    crowd(player)
    spoilt.write_text("break in")
    computed = Step(player, asked)
    assert (computed.computed, computed.fetched) == (LENGTH, 0)
    spoilt.write_text("")
    crowd(player)
    again = Step(player, asked)
    assert again.fetched == LENGTH - 1
    assert_same(again, computed)


def test_what_cannot_be_copied_out_is_forgotten(player: Player, spoilt: Path) -> None:
    asked = prompt()
    Step(player, asked)
    spoilt.write_text("break out")
    for _ in range(ROUNDS):
        crowd(player)
    spoilt.write_text("")
    computed = Step(player, asked)
    assert (computed.computed, computed.fetched) == (LENGTH, 0)
    crowd(player)
    assert Step(player, asked).fetched == LENGTH - 1, "the host has as much room as before"


@pytest.mark.parametrize("way", ["in", "out"])
def test_a_wrong_copy_would_be_noticed(player: Player, spoilt: Path, way: str) -> None:
    asked = prompt()
    Step(player, asked)
    if way == "out":
        spoilt.write_text("blur out")
    crowd(player)
    if way == "in":
        spoilt.write_text("blur in")
    again = Step(player, asked)
    assert again.fetched == LENGTH - 1
    assert again.differs_from(fresh(player, asked)) > 100 * TOLERANCE


def test_the_host_forgets_what_it_has_no_room_for(player: Player) -> None:
    asked = prompt()
    Step(player, asked)
    for _ in range(ROUNDS):
        crowd(player)
    latest = prompt()
    Step(player, latest)
    crowd(player)
    assert Step(player, asked).fetched == 0
    assert Step(player, latest).fetched == LENGTH - 1


def forking(player: Player, asked: Text) -> Answer:
    return Answer(player, f"r{next(_numbers)}", asked, vocab=90)


def test_of_a_forking_answer_only_the_prompt_goes_to_the_host(player: Player) -> None:
    asked = prompt()
    (said,) = player.drive(forking(player, asked).run())
    before = player.engine.load().totals.tier
    crowd(player)
    between = player.engine.load().totals.tier
    assert between.host_stored_tokens - before.host_stored_tokens == LENGTH
    assert player.drive(forking(player, asked).run()) == [said]
    after = player.engine.load().totals.tier
    assert after.host_fetched_tokens - between.host_fetched_tokens == LENGTH - 1


def test_forking_requests_in_a_small_pool_say_what_each_says_alone(player: Player) -> None:
    asked = [prompt(120) for _ in range(8)]
    alone = [player.drive(forking(player, one).run())[0] for one in asked]
    player.engine.drop_cached()
    before = player.engine.load().totals.tier
    for _ in range(2):
        assert player.drive(*(forking(player, one).run() for one in asked)) == alone
    after = player.engine.load().totals.tier
    assert after.host_fetched_tokens > before.host_fetched_tokens


def test_plain_requests_of_sglang_are_right_beside_it(player: Player, oracle: Oracle) -> None:
    first = plain(player, [*range(10, 40)])
    Step(player, prompt())
    crowd(player)
    assert_plain_is_right(oracle, first)
    assert_plain_is_right(oracle, plain(player, [*range(10, 40)]))


def test_an_engine_that_is_closed_ends_no_process_of_another(
    running: SglangEngine, engine: SglangEngine
) -> None:
    ended, others = processes(running), processes(engine)
    running.close()
    assert not any(process.is_running() for process in ended)
    assert all(process.is_running() for process in others)
    player = Player(engine)
    assert player.run(prompt(), max_tokens=3).finish.error is None
    player.settle()


def processes(engine: SglangEngine) -> list[psutil.Process]:
    """What an engine runs in."""
    watchdog = engine.server.engine.tokenizer_manager._subprocess_watchdog
    return [psutil.Process(process.pid) for process in watchdog._processes]
