"""Who may call, and what is a request at all: asked before a method of the service runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from multiverse_router.rpc.refusal import refuse
from multiverse_shared.errors import InvalidRequest, MultiverseError

# Given a call's metadata by (lower-case) name; raises what refuses it. Waits if it likes.
Admit: TypeAlias = Callable[[Mapping[str, str]], Awaitable[None]]
Details: TypeAlias = grpc.HandlerCallDetails
Continuation: TypeAlias = Callable[[Details], Awaitable[grpc.RpcMethodHandler]]


class Admission(grpc.aio.ServerInterceptor):
    """Of one service; others (health, reflection) are open to all."""

    def __init__(self, service: str, admit: Admit | None) -> None:
        self._prefix = f"/{service}/"
        self._admit = admit

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: Details
    ) -> grpc.RpcMethodHandler | None:
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(self._prefix):
            return handler
        metadata = dict(handler_call_details.invocation_metadata or ())
        refusal = await self._refusal(metadata)
        parse = handler.request_deserializer

        def read(data: bytes) -> Any:
            try:
                return refusal or parse(data)
            except DecodeError as error:
                return InvalidRequest(f"the request is no message of its kind: {error}")

        return _checked(handler, read)

    async def _refusal(self, metadata: Mapping[str, str]) -> MultiverseError | None:
        try:
            if self._admit:
                await self._admit(metadata)
        except MultiverseError as error:
            return error
        return None


def _checked(handler: grpc.RpcMethodHandler, read: Callable[[bytes], Any]) -> grpc.RpcMethodHandler:
    """`handler`, which is called with requests and not with errors."""
    method = handler.unary_stream or handler.unary_unary

    async def call(request: Any, context: grpc.aio.ServicerContext) -> Any:
        if isinstance(request, MultiverseError):
            await refuse(context, request)
        return await method(request, context)

    make = (
        grpc.unary_stream_rpc_method_handler
        if handler.response_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    return make(call, read, handler.response_serializer)
