"""The public gRPC service: the events of an answer, one message each.

Knows calls. Must not know how an answer is made, or what a request may hold.
"""

from __future__ import annotations

import grpc

from multiverse_protos.generate.v1 import generate_pb2 as pb
from multiverse_protos.generate.v1.generate_pb2_grpc import GenerateServiceServicer
from multiverse_router.answers import Answers
from multiverse_router.api.generate import generate_request
from multiverse_router.events import ErrorEvent, FinishEvent
from multiverse_router.request import AnswerRequest
from multiverse_router.rpc.held_answer import HeldAnswer
from multiverse_router.rpc.messages import generate_body, model_message, response
from multiverse_router.rpc.refusal import refuse
from multiverse_router.settings import RouterSettings
from multiverse_router.visit import current_visit
from multiverse_shared.errors import (
    DeadlineExceeded,
    MultiverseError,
    RequestTooLarge,
    error_of_kind,
)

SERVICE_NAME = pb.DESCRIPTOR.services_by_name["GenerateService"].full_name


class GenerateService(GenerateServiceServicer):
    """One per process."""

    def __init__(self, answers: Answers, settings: RouterSettings) -> None:
        self._answers = answers
        self._settings = settings

    async def Generate(  # noqa: N802 - the names are the protocol's
        self, request: pb.GenerateRequest, context: grpc.aio.ServicerContext
    ) -> None:
        """The call's task is the scope of the answer: cancelled with it, it ends all work.

        It is cancelled when the client leaves, and by the call's deadline.
        """
        try:
            wanted = await self._wanted(request)
            await self._answers.admit([wanted])
            await self._tell(wanted, context)
        except MultiverseError as error:
            await refuse(context, error)
        finally:
            current_visit().end()

    async def GetModel(  # noqa: N802
        self, request: pb.GetModelRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetModelResponse:
        try:
            model = self._answers.model(request.name)
        except MultiverseError as error:
            await refuse(context, error)
        return pb.GetModelResponse(model=model_message(model))

    async def ListModels(  # noqa: N802
        self, request: pb.ListModelsRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListModelsResponse:
        try:
            return pb.ListModelsResponse(
                models=[model_message(model) for model in self._answers.models]
            )
        except MultiverseError as error:
            await refuse(context, error)

    async def _wanted(self, request: pb.GenerateRequest) -> AnswerRequest:
        size, most = request.ByteSize(), self._settings.max_body_bytes
        if size > most:
            text = f"the request has {size} bytes, {most} are taken; send less"
            raise RequestTooLarge(text, field="body")
        return await generate_request(generate_body(request), self._answers, self._settings)

    async def _tell(self, wanted: AnswerRequest, context: grpc.aio.ServicerContext) -> None:
        stalled_s = self._settings.stalled_reader_s
        held = HeldAnswer(stalled_s)
        async with held.events(self._answers, wanted) as events:
            sequence = 0
            async for event in events:
                if sequence or not isinstance(event, ErrorEvent):
                    held.writes()
                    await context.write(response(event, sequence))
                    held.wrote()
                    current_visit().told = isinstance(event, FinishEvent)
                    sequence += 1
                if held.stalled:
                    text = f"nothing was read for {stalled_s:g} s; the answer was ended"
                    raise DeadlineExceeded(text)
                if isinstance(event, ErrorEvent):
                    raise error_of_kind(event.kind, event.message)
