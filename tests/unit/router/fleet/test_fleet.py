"""Who is in the fleet, which models it serves, and what becomes of workers that leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.fleet import fleet as fleet_module
from multiverse_router.fleet.fleet import Fleet
from multiverse_router.fleet.link import new_branch
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import InvalidRequest, NotFound, WorkerUnavailable
from tests.unit.router.hand_fed import HandFedLink, fleet_of
from tests.unit.router.scripted_worker import ScriptedWorker, serving
from tests.unit.router.served import served_model


async def eventually(condition: object, within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # type: ignore[operator]  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class Told:
    """A discovery that says what it is told to say."""

    def __init__(self, *addresses: str) -> None:
        self.news: asyncio.Queue[frozenset[str]] = asyncio.Queue()
        self.say(*addresses)

    def say(self, *addresses: str) -> None:
        self.news.put_nowait(frozenset(addresses))

    async def watch(self) -> AsyncIterator[frozenset[str]]:
        while True:
            yield await self.news.get()


@asynccontextmanager
async def running(source: Told, **settings: object) -> AsyncIterator[Fleet]:
    fleet = Fleet(RouterSettings(**settings), source)
    task = asyncio.create_task(fleet.run())
    try:
        yield fleet
    finally:
        task.cancel()
        await asyncio.wait([task])


def named(name: str, address: str, **changes: int) -> HandFedLink:
    return HandFedLink(replace(served_model(), name=name, **changes), address)


def test_a_request_names_one_of_several_models() -> None:
    fleet = fleet_of(named("a", "w:1"), named("b", "w:2"), named("b", "w:3"))
    assert [model.name for model in fleet.models] == ["a", "b"]
    assert fleet.model("b").name == "b"
    assert {w.address for w in fleet.pool(fleet.model("b")).members.workers} == {"w:2", "w:3"}
    with pytest.raises(InvalidRequest, match="one of a, b") as unnamed:
        fleet.model()
    assert unnamed.value.field == "model"
    with pytest.raises(NotFound, match="'c' is not served here; 'a' and 'b' are"):
        fleet.model("c")


def test_the_only_model_need_not_be_named() -> None:
    fleet = fleet_of(named("a", "w:1"))
    assert fleet.model().name == "a"


def test_a_model_whose_workers_are_away_is_unavailable_not_unknown() -> None:
    one, two = named("a", "w:1"), named("b", "w:2")
    fleet = fleet_of(one, two)
    one.lose()
    with pytest.raises(WorkerUnavailable, match="w:1"):
        fleet.model("a")
    assert fleet.model("b").name == "b"
    assert [model.name for model in fleet.models] == ["b"]


def test_a_prompt_must_fit_every_worker_so_that_it_may_move() -> None:
    fleet = fleet_of(
        named("a", "w:1", context_length=100, kv_cells=900),
        named("a", "w:2", context_length=200, kv_cells=500),
    )
    model = fleet.model("a")
    assert (model.context_length, model.kv_cells) == (100, 500)


def test_a_pool_holds_workers_of_the_same_files_only() -> None:
    link, other = (
        named("a", "w:1"),
        HandFedLink(replace(served_model(), name="a", digest="x"), "w:2"),
    )
    fleet = fleet_of(link, other)
    assert [w.address for w in fleet.pool(link.model).members.workers] == ["w:1"]


async def test_a_worker_with_other_files_is_refused_until_the_first_is_gone() -> None:
    class Versioned(ScriptedWorker):
        def __init__(self, digest: str) -> None:
            super().__init__()
            self.digest = digest

        async def GetModelInfo(  # noqa: N802
            self, request: pb.GetModelInfoRequest, context: object
        ) -> pb.GetModelInfoResponse:
            info = await super().GetModelInfo(request, context)  # type: ignore[arg-type]
            info.files_digest = self.digest
            return info

    async with serving(Versioned("old")) as old, serving(Versioned("new")) as new:
        source = Told(f"127.0.0.1:{old}")
        async with running(source) as fleet:
            await eventually(lambda: fleet.ready)
            source.say(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
            await eventually(lambda: any(w.link.refused for w in fleet.workers))
            refused = next(w for w in fleet.workers if w.link.refused)
            assert "other files" in refused.link.reason
            assert fleet.model().digest == "old"
            source.say(f"127.0.0.1:{new}")
            await eventually(lambda: fleet.ready and fleet.model().digest == "new")


async def test_a_worker_that_is_found_no_more_ends_what_it_has_and_is_forgotten() -> None:
    class Reader:
        def updated(self, link: object, update: pb.Update) -> None: ...
        def lost(self, link: object, branches: list[int], reason: str) -> None: ...

    worker = ScriptedWorker()
    async with serving(worker) as port:
        address = f"127.0.0.1:{port}"
        source = Told(address)
        async with running(source) as fleet:
            await eventually(lambda: fleet.ready)
            [member] = fleet.workers
            branch = new_branch()
            member.link.start(pb.Start(branch=branch), Reader())
            source.say()
            await eventually(lambda: member.leaving)
            assert not member.available
            assert member.reachable, "its branch may end"
            finish = pb.Finish(reason=pb.FINISH_REASON_STOP)
            ended = pb.Update(branch=branch, finish=finish)
            worker.frames.put_nowait(pb.RunResponse(updates=[ended]))
            await eventually(lambda: not fleet.workers)
            source.say(address)
            await eventually(lambda: fleet.ready)


async def test_a_discovery_that_fails_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Told):
        asked = 0

        async def watch(self) -> AsyncIterator[frozenset[str]]:
            self.asked += 1
            yield frozenset({"nobody:1"} if self.asked > 1 else ())
            if self.asked == 1:
                raise RuntimeError("it broke")
            await asyncio.Event().wait()

    monkeypatch.setattr(fleet_module, "FAILED_S", 0.01)
    async with running(Failing()) as fleet:
        await eventually(lambda: [worker.address for worker in fleet.workers] == ["nobody:1"])


async def test_a_worker_that_comes_back_before_it_is_forgotten_takes_work_again() -> None:
    fleet = fleet_of(HandFedLink(address="w:1"))
    [member] = fleet.workers
    member.requests = 1
    async with asyncio.TaskGroup() as tasks:
        fleet.reconcile([], tasks)
        assert member.leaving
        fleet.reconcile(["w:1"], tasks)
    assert member.available


async def test_work_moves_on_from_a_worker_that_computes_nothing() -> None:
    class Reader:
        gone = ""

        def updated(self, link: object, update: pb.Update) -> None: ...
        def lost(self, link: object, branches: list[int], reason: str) -> None:
            self.gone = reason

    silent, other = ScriptedWorker(), ScriptedWorker()
    async with serving(silent) as one, serving(other) as two:
        source = Told(f"127.0.0.1:{one}")
        async with running(source, silence_s=0.3) as fleet:
            await eventually(lambda: fleet.ready)
            [member] = fleet.workers
            reader = Reader()
            member.link.start(pb.Start(branch=new_branch()), reader)
            fleet._check_silence(member)
            await asyncio.sleep(0.4)  # the time that counts as silence
            fleet._check_silence(member)
            assert not reader.gone, "there is nobody else"
            source.say(f"127.0.0.1:{one}", f"127.0.0.1:{two}")
            await eventually(lambda: reader.gone)
            assert "nothing was computed" in reader.gone
            assert not member.breaker.closed
