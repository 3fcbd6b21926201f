"""How probable a prompt is to the model, token by token.

The worker is made to say the prompt: its tokens stand in place of draws.
"""

from __future__ import annotations

import asyncio

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.logprobs import Logprobs, TokenLogprob
from multiverse_router.model import ServedModel
from multiverse_router.request import AnswerRequest
from multiverse_router.wire import context_message
from multiverse_router.worker_link import WorkerLink
from multiverse_shared.errors import DeadlineExceeded, WorkerUnavailable, error_from_grpc
from multiverse_shared.tree import Text, linearise


async def prompt_logprobs(
    link: WorkerLink, model: ServedModel, request: AnswerRequest
) -> tuple[TokenLogprob, ...]:
    """Logprobs of all tokens of a prompt without blocks but the first.

    MultiverseError when the worker can't say.
    """
    first, *others = linearise(request.prompt)
    if not others:
        return ()
    reader = Logprobs(model.tokenizer)
    entries: list[TokenLogprob] = []
    with link.channel() as channel:
        start = pb.Start(
            branch=channel.new_branch(),
            request=f"{request.id}-prompt",
            context=context_message((Text((first,)),)),
            sampling=pb.Sampling(
                stream="prompt", logprobs=True, top_logprobs=request.sampling.top_logprobs
            ),
            max_tokens=len(others),
            script=others,
        )
        channel.start(start)
        try:
            async with asyncio.timeout(request.deadline_s):
                while True:
                    update = await channel.update()
                    entries += [reader.entry(update, index) for index in range(len(update.ids))]
                    if update.HasField("finish"):
                        _check(update.finish)
                        channel.release(update.finish.lease)
                        return tuple(entries)
        except TimeoutError:
            raise DeadlineExceeded("the deadline passed while the prompt was read") from None


def _check(finish: pb.Finish) -> None:
    if finish.reason == pb.FINISH_REASON_FAILED:
        raise error_from_grpc(finish.code, finish.message)
    if finish.reason != pb.FINISH_REASON_LENGTH:
        raise WorkerUnavailable("the worker gave the prompt up; try again")
