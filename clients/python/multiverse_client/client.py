"""The clients: an address, a key, and how patient to be. The address chooses the transport."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Unpack
from urllib.parse import urlsplit

from multiverse_client.answer import Answer
from multiverse_client.errors import InvalidRequest
from multiverse_client.http_transport import AsyncHttpTransport, HttpTransport
from multiverse_client.request import Message, Options, request_body
from multiverse_client.retry import Retry
from multiverse_client.stream import AnswerStream, AsyncAnswerStream
from multiverse_client.transport import AsyncTransport, Model, Timeouts, Transport

NEEDS_GRPC = "grpc:// addresses need the extra: pip install 'multiverse-client[grpc]'"
_RETRY = Retry()
_TIMEOUTS = Timeouts()


class _Address(NamedTuple):
    grpc: bool
    secure: bool
    target: str  # host:port for gRPC, else the URL


def _address(url: str) -> _Address:
    """InvalidRequest for what is no address of a router."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.netloc:
        text = f"{url!r}: an address begins with http://, https://, grpc:// or grpcs://"
        raise InvalidRequest(text, field="url")
    grpc = parts.scheme.startswith("grpc")
    return _Address(grpc, parts.scheme.endswith("s"), parts.netloc if grpc else url)


def _transport(url: str, key: str | None, timeouts: Timeouts) -> Transport:
    address = _address(url)
    if not address.grpc:
        return HttpTransport(address.target, key, timeouts)
    try:
        from multiverse_client.grpc_transport import GrpcTransport
    except ImportError as error:
        raise ImportError(NEEDS_GRPC) from error
    return GrpcTransport(address.target, address.secure, key, timeouts)


def _async_transport(url: str, key: str | None, timeouts: Timeouts) -> AsyncTransport:
    address = _address(url)
    if not address.grpc:
        return AsyncHttpTransport(address.target, key, timeouts)
    try:
        from multiverse_client.grpc_transport import AsyncGrpcTransport
    except ImportError as error:
        raise ImportError(NEEDS_GRPC) from error
    return AsyncGrpcTransport(address.target, address.secure, key, timeouts)


class Client:
    """Sync; may be shared between threads. Close it, or use it as a context manager.

    `url` is `http(s)://host:port` or `grpc(s)://host:port`; `api_key` is sent as a bearer token.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeouts: Timeouts = _TIMEOUTS,
        retry: Retry = _RETRY,
    ) -> None:
        self._retry = retry
        self._transport = _transport(url, api_key, timeouts)

    def stream(self, prompt: str | Sequence[Message], **options: Unpack[Options]) -> AnswerStream:
        """One answer, to be entered and iterated. `prompt`: a user message, or a chat."""
        return AnswerStream(self._transport, request_body(prompt, options), self._retry)

    def generate(self, prompt: str | Sequence[Message], **options: Unpack[Options]) -> Answer:
        """One whole answer. ApiError when there is none."""
        with self.stream(prompt, **options) as stream:
            return stream.read()

    def models(self) -> list[Model]:
        return self._transport.models()

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient:
    """The same, in asyncio; for one event loop."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeouts: Timeouts = _TIMEOUTS,
        retry: Retry = _RETRY,
    ) -> None:
        self._retry = retry
        self._transport = _async_transport(url, api_key, timeouts)

    def stream(
        self, prompt: str | Sequence[Message], **options: Unpack[Options]
    ) -> AsyncAnswerStream:
        """One answer, to be entered and iterated. `prompt`: a user message, or a chat."""
        return AsyncAnswerStream(self._transport, request_body(prompt, options), self._retry)

    async def generate(self, prompt: str | Sequence[Message], **options: Unpack[Options]) -> Answer:
        """One whole answer. ApiError when there is none."""
        async with self.stream(prompt, **options) as stream:
            return await stream.read()

    async def models(self) -> list[Model]:
        return await self._transport.models()

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
