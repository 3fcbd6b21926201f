"""Client of Multiverse routers: answers as events and as trees, over HTTP or gRPC.

    with Client("http://127.0.0.1:8000") as client:
        with client.stream("max a:7+5-3+2,b:4+9-2+5,?") as stream:
            for event in stream:
                ...
        print(stream.answer.text())

Must not know the services: what it needs of them stands in docs/api.md.
"""

from multiverse_client.answer import Answer, AnswerPath
from multiverse_client.client import AsyncClient, Client
from multiverse_client.errors import (
    ApiError,
    CapacityExceeded,
    Conflict,
    ConnectionFailed,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    NotAllowed,
    NotFound,
    RequestTooLarge,
    TimedOut,
    WorkerUnavailable,
)
from multiverse_client.events import (
    Event,
    Finish,
    Fork,
    Join,
    PathEnd,
    Probable,
    Start,
    Text,
    TokenLogprob,
    Usage,
)
from multiverse_client.request import Message, Options
from multiverse_client.retry import Retry
from multiverse_client.stream import AnswerStream, AsyncAnswerStream
from multiverse_client.transport import Model, Timeouts

__all__ = [
    "Answer",
    "AnswerPath",
    "AnswerStream",
    "ApiError",
    "AsyncAnswerStream",
    "AsyncClient",
    "CapacityExceeded",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "DeadlineExceeded",
    "Event",
    "Finish",
    "Fork",
    "InternalError",
    "InvalidRequest",
    "Join",
    "Message",
    "Model",
    "NotAllowed",
    "NotFound",
    "Options",
    "PathEnd",
    "Probable",
    "RequestTooLarge",
    "Retry",
    "Start",
    "Text",
    "TimedOut",
    "Timeouts",
    "TokenLogprob",
    "Usage",
    "WorkerUnavailable",
]
