"""The public gRPC service over a hand-fed link: statuses, events, and calls that end early."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
from signal import SIGSTOP
from subprocess import DEVNULL, PIPE
from typing import get_args

import grpc
import pytest

from multiverse_protos.generate.v1 import generate_pb2 as pb
from multiverse_protos.generate.v1.generate_pb2_grpc import GenerateServiceStub
from multiverse_router.answers import Answers
from multiverse_router.events import AnswerEvent, event_json
from multiverse_router.rpc.admission import Admit
from multiverse_router.rpc.messages import generate_body, response
from multiverse_router.rpc.server import serving
from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import CapacityExceeded
from tests.unit.router.app import SEAL
from tests.unit.router.asgi import until
from tests.unit.router.hand_fed import HandFedLink, admissions, text
from tests.unit.router.test_events import EVENTS

MOST_BYTES = 4096
SMALL_WINDOW = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16)]
ASK = pb.GenerateRequest(prompt="a")
BODY = {
    "model": "small",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": None, "multiverse": {"context": "c"}},
        {"role": "user", "content": ""},
    ],
    "parallel": "serial",
    "max_tokens": 1 << 40,
    "max_critical_tokens": 2,
    "max_paths": 3,
    "max_live_paths": 4,
    "max_depth": 0,
    "max_path_tokens": 5,
    "max_goal_tokens": 6,
    "max_blocks": 0,
    "deadline_s": 0.1,
    "return_context": True,
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 7,
    "min_p": 0.1,
    "presence_penalty": -0.3,
    "frequency_penalty": 0.3,
    "repetition_penalty": 1.1,
    "logit_bias": {7: -1.5},
    "logprobs": True,
    "top_logprobs": 2,
    "stop": ["a", "b"],
    "seed": (1 << 63) - 1,
}


def some_answers(most: int) -> Answers:
    return Answers(HandFedLink().fleet, admissions(most), SEAL)


@asynccontextmanager
async def service(
    link: HandFedLink, admit: Admit | None = None, **settings: float
) -> AsyncIterator[tuple[GenerateServiceStub, Answers]]:
    answers = Answers(link.fleet, admissions(4), SEAL)
    known = RouterSettings(grpc_port=0, max_body_bytes=MOST_BYTES, **settings)
    async with serving(answers, known, admit) as port:
        target = f"127.0.0.1:{port}"
        async with grpc.aio.insecure_channel(target, SMALL_WINDOW) as channel:
            yield GenerateServiceStub(channel), answers


async def told(call: grpc.aio.UnaryStreamCall) -> list[str]:
    return [message.WhichOneof("event") async for message in call]


async def read_all(call: grpc.aio.UnaryStreamCall) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def begun(link: HandFedLink) -> None:
    await until(lambda: link.starts)


def test_a_request_is_the_body_that_says_the_same() -> None:
    message = pb.GenerateRequest(
        **{name: value for name, value in BODY.items() if name not in ("parallel", "messages")},
        parallel=pb.PARALLEL_SERIAL,
        messages=[
            pb.Message(role=pb.ROLE_SYSTEM, content="s"),
            pb.Message(role=pb.ROLE_ASSISTANT, multiverse=pb.Said(context="c")),
            pb.Message(role=pb.ROLE_USER, content=""),
        ],
    )
    assert generate_body(message).model_dump(exclude_unset=True, mode="json") == {
        **BODY,
        "messages": [
            {name: value for name, value in said.items() if value is not None}
            for said in BODY["messages"]  # type: ignore[attr-defined]
        ],
        "logit_bias": {"7": -1.5},
    }


def test_every_field_of_the_body_has_its_place_in_the_message() -> None:
    given = set(generate_body(ASK).model_fields_set) | set(type(generate_body(ASK)).model_fields)
    ways = {"stream", "tags"}  # all is streamed, and every text says what kind it is
    assert given - ways == {field.name for field in pb.GenerateRequest.DESCRIPTOR.fields}


def test_what_is_left_out_is_the_default() -> None:
    assert generate_body(ASK).model_fields_set == {"prompt"}


def test_every_field_of_every_event_has_its_place_in_its_message() -> None:
    for kind in get_args(AnswerEvent):
        place = pb.GenerateResponse.DESCRIPTOR.fields_by_name[kind.type]
        assert {field.name for field in fields(kind)} == {
            field.name for field in place.message_type.fields
        }


@pytest.mark.parametrize("event", [event for event, _ in EVENTS], ids=lambda event: event.type)
def test_an_event_says_over_grpc_what_it_says_over_http(event: AnswerEvent) -> None:
    message = response(event, 7)
    assert message.seq == 7
    assert message.WhichOneof("event") == event.type
    said = getattr(message, event.type)
    for name, value in event_json(event, 7).items():
        if name not in ("type", "seq"):
            got = getattr(said, name)
            same = dict(got) if isinstance(value, dict) else got
            assert (list(same) if isinstance(value, tuple) else same) == (
                list(value) if isinstance(value, tuple) else value
            )


async def test_a_failure_before_the_first_event_is_a_status_and_one_after_it_also_an_event() -> (
    None
):
    link = HandFedLink()
    async with service(link) as (stub, _):
        call = stub.Generate(ASK)
        await begun(link)
        link.failed(link.starts[0], "RESOURCE_EXHAUSTED", "full")
        events = [await call.read(), await call.read()]
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call.read()
    assert [event.WhichOneof("event") for event in events] == ["start", "error"]
    assert (events[1].error.kind, events[1].error.message) == ("capacity_exceeded", "full")
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_without_a_worker_the_status_says_when_to_try_again() -> None:
    link = HandFedLink()
    link.lose()
    async with service(link) as (stub, _):
        for call in (stub.Generate(ASK), stub.ListModels(pb.ListModelsRequest())):
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await (told(call) if isinstance(call, grpc.aio.UnaryStreamCall) else call)
            assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
            assert ("retry-after", "1") in tuple(failure.value.trailing_metadata())


@pytest.mark.parametrize(
    ("request_", "code", "field"),
    [
        (pb.GenerateRequest(), "INVALID_ARGUMENT", "body"),
        (pb.GenerateRequest(prompt="a", max_tokens=-1), "INVALID_ARGUMENT", "max_tokens"),
        (pb.GenerateRequest(prompt="a", parallel=9), "INVALID_ARGUMENT", "parallel"),  # type: ignore[arg-type]
        (pb.GenerateRequest(messages=[pb.Message()]), "INVALID_ARGUMENT", "messages.0.role"),
        (pb.GenerateRequest(prompt="a", model="b" * 3000), "NOT_FOUND", "model"),
        (pb.GenerateRequest(prompt="é" * 3000), "OUT_OF_RANGE", "body"),
        (pb.GenerateRequest(prompt="a" * 4000), "OUT_OF_RANGE", "prompt"),
        (pb.GenerateRequest(prompt="a", logit_bias={-3: 1}), "INVALID_ARGUMENT", "logit_bias"),
    ],
)
async def test_a_refusal_names_the_field(request_: object, code: str, field: str) -> None:
    async with service(HandFedLink()) as (stub, answers):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await told(stub.Generate(request_))
        assert failure.value.code().name == code
        assert ("error-field", field) in tuple(failure.value.trailing_metadata())
        assert answers.running == 0


async def test_bytes_that_are_no_message_are_the_callers_fault() -> None:
    async with (
        serving(some_answers(1), RouterSettings(grpc_port=0)) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        call = channel.unary_stream("/multiverse.generate.v1.GenerateService/Generate")
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await told(call(b"\x12\x02\xff\xfe"))
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_call_that_is_cancelled_ends_its_work() -> None:
    link = HandFedLink()
    async with service(link) as (stub, answers):
        call = stub.Generate(ASK)
        assert (await call.read()).WhichOneof("event") == "start"
        await begun(link)
        call.cancel()
        await until(lambda: link.aborted == {link.starts[0].branch})
        await until(lambda: answers.running == 0)


async def test_the_deadline_of_a_call_ends_its_work() -> None:
    link = HandFedLink()
    async with service(link) as (stub, answers):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await told(stub.Generate(ASK, timeout=0.2))
        assert failure.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: link.aborted == {link.starts[0].branch})
        await until(lambda: answers.running == 0)


CALLER = """
import sys, grpc
from multiverse_protos.generate.v1 import generate_pb2 as pb
from multiverse_protos.generate.v1.generate_pb2_grpc import GenerateServiceStub
stub = GenerateServiceStub(grpc.insecure_channel(sys.argv[1]))
for response in stub.Generate(pb.GenerateRequest(prompt="a"), timeout=1):
    print(response.seq, flush=True)
"""


async def test_the_deadline_ends_the_work_of_a_client_that_can_say_nothing() -> None:
    link = HandFedLink()
    answers = Answers(link.fleet, admissions(1), SEAL)
    async with serving(answers, RouterSettings(grpc_port=0)) as port:
        caller = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CALLER, f"127.0.0.1:{port}", stdout=PIPE, stderr=DEVNULL
        )
        try:
            assert caller.stdout
            assert await caller.stdout.readline() == b"0\n"
            caller.send_signal(SIGSTOP)
            await until(lambda: answers.running == 0)
            assert link.aborted == {link.starts[0].branch}
        finally:
            caller.kill()
            await caller.wait()


async def test_a_failure_to_begin_is_a_status_only() -> None:
    answers = some_answers(0)
    async with (
        serving(answers, RouterSettings(grpc_port=0)) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        call = GenerateServiceStub(channel).Generate(ASK)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await call.read()
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_reader_that_takes_nothing_is_cut() -> None:
    link = HandFedLink()
    async with service(link, stalled_reader_s=0.1) as (stub, answers):
        call = stub.Generate(ASK)
        await call.read()
        await begun(link)
        for _ in range(40):
            link.decoded(link.starts[0], text("Both paths agree. ") * 300)
        await until(lambda: answers.running == 0)
        assert link.aborted == {link.starts[0].branch}
        with pytest.raises(grpc.aio.AioRpcError, match="nothing was read"):
            await read_all(call)


async def test_who_may_not_call_is_refused_and_health_is_open_to_all() -> None:
    async def admit(metadata: Mapping[str, str]) -> None:
        if metadata.get("authorization") != "Bearer right":
            raise CapacityExceeded("not you")

    link = HandFedLink()
    async with service(link, admit) as (stub, _):
        with pytest.raises(grpc.aio.AioRpcError, match="not you"):
            await stub.ListModels(pb.ListModelsRequest())
        with pytest.raises(grpc.aio.AioRpcError, match="not you"):
            await told(stub.Generate(ASK))
        metadata = (("authorization", "Bearer right"),)
        listed = await stub.ListModels(pb.ListModelsRequest(), metadata=metadata)
        assert [model.name for model in listed.models] == ["small"]


async def test_a_silent_call_survives_its_clients_pings() -> None:
    """A server with the defaults of gRPC hangs up at the third ping.

    Nor is a reader stalled to whom nothing is said.
    """
    options = [
        ("grpc.keepalive_time_ms", 1000),
        ("grpc.keepalive_timeout_ms", 2000),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    link = HandFedLink()
    settings = RouterSettings(grpc_port=0, stalled_reader_s=1)  # of who does not read
    async with (
        serving(Answers(link.fleet, admissions(1), SEAL), settings) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel,
    ):
        call = GenerateServiceStub(channel).Generate(ASK)
        await call.read()
        await begun(link)
        await asyncio.sleep(4)  # of silence, with a ping each second
        link.decoded(link.starts[0], text("ab"))
        assert (await call.read()).text.delta == "ab"
        call.cancel()
