"""llama.cpp itself under pressure: few sequences, few cells, batches that fail."""

from __future__ import annotations

from typing import Any

import llama_cpp
import pytest

from multiverse_shared.errors import WorkerUnavailable
from multiverse_worker.contract import FinishReason, Ids
from multiverse_worker.engines.llamacpp.engine import LlamaCppEngine
from tests.integration.worker.engines import OpenEngine
from tests.unit.worker.answers import answers
from tests.unit.worker.client import Client, assert_nothing_held, text

PROMPT = text(*range(1, 41))
SHAPE = {"paths": 6, "vocab": 96}


def run_answers(engine: LlamaCppEngine, number: int) -> list[list[Ids]]:
    client = Client(engine)
    said = client.drive(*(answer.run() for answer in answers(client, number, **SHAPE)))
    engine.drop_cached()
    assert_nothing_held(engine)
    return said


@pytest.mark.parametrize(
    "options", [{"sequences": 5}, {"kv_cells": 256}, {"sequences": 6, "kv_cells": 256}], ids=str
)
def test_forking_requests_say_the_same_with_little_room(
    open_engine: OpenEngine, options: dict[str, Any]
) -> None:
    roomy = open_engine(sequences=64)
    tight = open_engine(**options)
    assert run_answers(tight, 4) == run_answers(roomy, 4)
    totals = tight.load().totals
    assert totals.revocations + totals.preemptions + tight._pressure.folding.folds > 0


def test_a_batch_that_fails_after_it_was_computed_leaves_no_cells(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is computed again continues at the same position: the library insists on that."""
    engine = open_engine()
    client = Client(engine)
    expected = client.run(PROMPT, max_tokens=6).ids
    engine.drop_cached()
    decode = llama_cpp.llama_decode
    codes = [1, 0, 0, 1, 0, 1]

    def unlucky(context: Any, batch: Any) -> int:
        result = int(decode(context, batch))
        return codes.pop(0) if codes else result

    monkeypatch.setattr(llama_cpp, "llama_decode", unlucky)
    client.run(text(9))  # fails: nothing can be taken for it
    client.release(client.run(text(8)).finish.lease)  # to be evicted
    assert client.run(PROMPT, max_tokens=6).ids == expected


def test_a_batch_that_the_library_refuses_ends_its_branches_only(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine()
    client = Client(engine)
    kept = client.run(PROMPT).finish
    before = client.run(PROMPT, text(7), max_tokens=4)
    decode = llama_cpp.llama_decode
    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", lambda context, batch: decode(context, batch) - 3)
        failed = client.run(PROMPT, text(9), max_tokens=4).finish
    assert failed.reason is FinishReason.FAILED
    assert isinstance(failed.error, WorkerUnavailable)
    assert client.run(PROMPT, text(7), max_tokens=4).ids == before.ids
    assert kept.lease in {lease.id for lease in engine.roster.leases}
