"""Who may call, and what is a request at all: asked before a method of the service runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from multiverse_router.calls import Calls
from multiverse_router.metrics import RouterMetrics
from multiverse_router.rpc.refusal import refuse
from multiverse_router.visit import current_visit
from multiverse_shared.errors import InvalidRequest, MultiverseError
from multiverse_shared.tracing import TRACEPARENT

# Given a call's metadata by (lower-case) name; raises what refuses it. Waits if it likes.
Admit: TypeAlias = Callable[[Mapping[str, str]], Awaitable[None]]
Details: TypeAlias = grpc.HandlerCallDetails
Continuation: TypeAlias = Callable[[Details], Awaitable[grpc.RpcMethodHandler]]


_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


class Admission(grpc.aio.ServerInterceptor):
    """Of one service; others (health, reflection) are open to all."""

    def __init__(
        self, service: str, admit: Admit | None, calls: Calls, metrics: RouterMetrics
    ) -> None:
        self._prefix = f"/{service}/"
        self._admit = admit
        self._calls = calls
        self._metrics = metrics

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: Details
    ) -> grpc.RpcMethodHandler | None:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or not method.startswith(self._prefix):
            return handler
        metadata = dict(handler_call_details.invocation_metadata or ())
        refusal = await self._refusal(metadata)
        parse = handler.request_deserializer

        def read(data: bytes) -> Any:
            try:
                return refusal or parse(data)
            except DecodeError as error:
                return InvalidRequest(f"the request is no message of its kind: {error}")

        return self._checked(method.removeprefix("/"), metadata, handler, read)

    async def _refusal(self, metadata: Mapping[str, str]) -> MultiverseError | None:
        try:
            if self._admit:
                await self._admit(metadata)
        except MultiverseError as error:
            return error
        return None

    def _checked(
        self,
        name: str,
        metadata: Mapping[str, str],
        handler: grpc.RpcMethodHandler,
        read: Callable[[bytes], Any],
    ) -> grpc.RpcMethodHandler:
        """`handler`, which is called with requests and not with errors; its calls are counted."""
        method = handler.unary_stream or handler.unary_unary

        async def call(request: Any, context: grpc.aio.ServicerContext) -> Any:
            with self._observed(name, metadata, context):
                if isinstance(request, MultiverseError):
                    await refuse(context, request)
                return await method(request, context)

        make = (
            grpc.unary_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        return make(call, read, handler.response_serializer)

    @contextmanager
    def _observed(
        self, name: str, metadata: Mapping[str, str], context: grpc.aio.ServicerContext
    ) -> Iterator[None]:
        """A span and a count for one call, by the status that it ends with."""
        visit, code = current_visit(), "OK"
        traceparent = str(metadata.get(TRACEPARENT, ""))
        self._calls.begin(visit, name, traceparent, {"rpc.system": "grpc", "rpc.method": name})
        try:
            yield
        except asyncio.CancelledError:
            if not visit.told:  # else its client had all it wanted, and did not wait for the end
                code = "CANCELLED"
            raise
        except BaseException:
            code = _NAMES.get(context.code(), "UNKNOWN")
            raise
        finally:
            self._metrics.calls.labels(name.rpartition("/")[2], code).inc()
            visit.span.set({"rpc.response.status_code": code})
            visit.span.end("" if code == "OK" else code)
