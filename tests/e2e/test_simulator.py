"""The whole stack on the simulator: the API without weights."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from multiverse_cli.stack import Stack
from multiverse_worker.models.directory import TEXT_FILES
from tests.e2e.answers import Tree, chat, events_of, whole

SIMULATED = {"engine": "sim", "sim_speed": "100", "sequences": "512"}


@pytest.fixture(scope="module")
def simulated(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a stack whose model directory has no weights."""
    directory = tmp_path_factory.mktemp("models") / "text-only"
    directory.mkdir()
    for name in TEXT_FILES:
        shutil.copy(model / name, directory)
    with (
        Stack(directory, worker_settings=SIMULATED) as stack,
        httpx.Client(base_url=stack.url, timeout=60) as client,
    ):
        yield client


def test_an_answer_forks_and_joins_as_the_prompt_directs(simulated: httpx.Client) -> None:
    events = events_of(simulated, "sim:paths=5,path=20-30 hello", seed=1)
    tree = Tree(events)
    assert tree.forks()["0"] == [5]
    assert events[-1]["reason"] == "stop"
    [usage] = [event for event in events if event["type"] == "usage"]
    assert usage["completion_tokens"] == tree.tokens()
    assert usage["critical_path_tokens"] == tree.longest_chain()


def test_one_seed_gives_one_answer_in_every_mode(simulated: httpx.Client) -> None:
    told = Tree(events_of(simulated, "sim:depth=2 hello", seed=7)).ids()
    serial = Tree(events_of(simulated, "sim:depth=2 hello", seed=7, parallel="serial")).ids()
    other = Tree(events_of(simulated, "sim:depth=2 hello", seed=8)).ids()
    assert told == serial
    assert told != other


def test_an_answer_that_may_not_fork_is_plain_text(simulated: httpx.Client) -> None:
    events = events_of(simulated, "hello", seed=7, parallel="off")
    assert Tree(events).forks() == {"0": []}
    assert "<" not in Tree(events).text()
    assert events[-1]["reason"] == "stop"


def test_the_openai_route_works_on_it(simulated: httpx.Client) -> None:
    answer = chat(simulated, "hello", seed=3)
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert whole(simulated, "hello", seed=3)["usage"]["completion_tokens"] > 20
