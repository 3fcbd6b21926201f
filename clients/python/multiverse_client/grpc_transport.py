"""Over gRPC: the events of multiverse.generate.v1. Needs the extra `grpc`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import grpc
from google.protobuf.message import Message

from multiverse_client.errors import ApiError, ConnectionFailed, InvalidRequest, TimedOut, error_of
from multiverse_client.events import Event
from multiverse_client.sequence import Sequence
from multiverse_client.trace import trace_headers
from multiverse_client.transport import Model, Timeouts
from multiverse_protos.generate.v1 import generate_pb2 as pb
from multiverse_protos.generate.v1.generate_pb2_grpc import GenerateServiceStub

MOST_BYTES = 64 << 20  # of a message
_KINDS = {
    "INVALID_ARGUMENT": "invalid_request_error",
    "UNAUTHENTICATED": "authentication_error",
    "PERMISSION_DENIED": "permission_error",
    "NOT_FOUND": "not_found_error",
    "UNIMPLEMENTED": "not_found_error",
    "OUT_OF_RANGE": "request_too_large",
    "RESOURCE_EXHAUSTED": "request_too_large",  # without a kind: gRPC's own, for a large message
}


def _options(timeouts: Timeouts) -> list[tuple[str, int]]:
    half_ms = max(1, int(timeouts.silence_s * 500))
    return [
        ("grpc.max_receive_message_length", MOST_BYTES),
        ("grpc.max_send_message_length", MOST_BYTES),
        # A server that answers no ping for half of the silence, after half of it, is gone.
        ("grpc.keepalive_time_ms", half_ms),
        ("grpc.keepalive_timeout_ms", half_ms),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.min_reconnect_backoff_ms", int(timeouts.connect_s * 1000)),
        ("grpc.initial_reconnect_backoff_ms", 100),
    ]


def _request(body: dict[str, Any]) -> pb.GenerateRequest:
    """InvalidRequest for what has no place in a message."""
    fields = dict(body)
    try:
        if "parallel" in fields:
            fields["parallel"] = f"PARALLEL_{fields['parallel'].upper()}"
        if isinstance(fields.get("stop"), str):
            fields["stop"] = [fields["stop"]]
        if "messages" in fields:
            fields["messages"] = [
                {**message, "role": f"ROLE_{message['role'].upper()}"}
                for message in fields["messages"]
            ]
        return pb.GenerateRequest(**fields)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidRequest(f"the request does not fit its message: {error}") from None


def _fields(message: Message) -> dict[str, Any]:
    """A message by names, as JSON would have it; optional fields that are not there left out."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.has_presence and not message.HasField(field.name):
            continue
        if field.message_type is None:
            found[field.name] = list(value) if field.is_repeated else value
        elif field.message_type.GetOptions().map_entry:
            found[field.name] = dict(value)
        else:
            found[field.name] = [_fields(item) for item in value]
    return found


def _event(message: pb.GenerateResponse) -> dict[str, Any]:
    kind = message.WhichOneof("event")
    if kind is None:  # of a newer server
        return {"type": "", "seq": message.seq}
    return {"type": kind, "seq": message.seq, **_fields(getattr(message, kind))}


def _model(message: pb.Model) -> Model:
    return Model(message.name, message.dialect, message.positions, message.context_length)


def _translated(target: str, error: grpc.RpcError, *, started: bool) -> ApiError:
    """A status as one of our errors."""
    code, details = error.code().name, error.details() or ""
    trailers = {key: value for key, value in error.trailing_metadata() or ()}
    kind = trailers.get("error-kind") or _KINDS.get(code)
    if kind is None and code == "DEADLINE_EXCEEDED":
        return TimedOut(f"{target}: waited long enough; see Timeouts", started=started)
    if kind is None and code in ("UNAVAILABLE", "CANCELLED"):
        what = "the answer broke off" if started else "no router answers"
        return ConnectionFailed(f"{target}: {what} ({details})", started=started)
    return error_of(
        kind or "internal_error",
        details,
        field=trailers.get("error-field"),
        retry_after=trailers.get("retry-after"),
        started=started,
    )


class GrpcTransport:
    """Sync."""

    def __init__(self, target: str, secure: bool, key: str | None, timeouts: Timeouts) -> None:
        self._target = target
        self._total_s = timeouts.total_s
        self._connect_s = timeouts.connect_s
        self._metadata = (("authorization", f"Bearer {key}"),) if key else ()
        self._channel = (
            grpc.secure_channel(target, grpc.ssl_channel_credentials(), _options(timeouts))
            if secure
            else grpc.insecure_channel(target, _options(timeouts))
        )
        self._stub = GenerateServiceStub(self._channel)

    @contextmanager
    def open(self, body: dict[str, Any]) -> Iterator[Iterator[Event]]:
        request = _request(body)
        metadata = (*self._metadata, *trace_headers().items())
        call = self._stub.Generate(request, timeout=self._total_s, metadata=metadata)
        try:
            yield self._events(self._next(call, started=False), call)
        finally:
            call.cancel()

    def _events(self, message: pb.GenerateResponse | None, call: Any) -> Iterator[Event]:
        sequence = Sequence()
        while message is not None:
            event = sequence.read(_event(message))
            if event:
                yield event
            if sequence.finished:
                return
            message = self._next(call, started=True)
        sequence.end()

    def _next(self, call: Any, *, started: bool) -> pb.GenerateResponse | None:
        try:
            return next(call, None)
        except grpc.RpcError as error:
            raise _translated(self._target, error, started=started) from None

    def models(self) -> list[Model]:
        try:
            listed = self._stub.ListModels(
                pb.ListModelsRequest(), timeout=self._connect_s, metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise _translated(self._target, error, started=False) from None
        return [_model(model) for model in listed.models]

    def close(self) -> None:
        self._channel.close()


class AsyncGrpcTransport:
    """In asyncio. The channel is made in the loop that first uses it."""

    def __init__(self, target: str, secure: bool, key: str | None, timeouts: Timeouts) -> None:
        self._target = target
        self._secure = secure
        self._timeouts = timeouts
        self._metadata = (("authorization", f"Bearer {key}"),) if key else ()
        self._channel: grpc.aio.Channel | None = None

    @property
    def _stub(self) -> GenerateServiceStub:
        if self._channel is None:
            options = _options(self._timeouts)
            self._channel = (
                grpc.aio.secure_channel(self._target, grpc.ssl_channel_credentials(), options)
                if self._secure
                else grpc.aio.insecure_channel(self._target, options)
            )
        return GenerateServiceStub(self._channel)

    @asynccontextmanager
    async def open(self, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[Event]]:
        metadata = (*self._metadata, *trace_headers().items())
        call = self._stub.Generate(
            _request(body), timeout=self._timeouts.total_s, metadata=metadata
        )
        try:
            yield self._events(await self._next(call, started=False), call)
        finally:
            call.cancel()

    async def _events(self, message: pb.GenerateResponse | None, call: Any) -> AsyncIterator[Event]:
        sequence = Sequence()
        while message is not None:
            event = sequence.read(_event(message))
            if event:
                yield event
            if sequence.finished:
                return
            message = await self._next(call, started=True)
        sequence.end()

    async def _next(self, call: Any, *, started: bool) -> pb.GenerateResponse | None:
        try:
            message = await call.read()
        except grpc.RpcError as error:
            raise _translated(self._target, error, started=started) from None
        return None if message is grpc.aio.EOF else message

    async def models(self) -> list[Model]:
        try:
            listed = await self._stub.ListModels(
                pb.ListModelsRequest(), timeout=self._timeouts.connect_s, metadata=self._metadata
            )
        except grpc.RpcError as error:
            raise _translated(self._target, error, started=False) from None
        return [_model(model) for model in listed.models]

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
