"""How probable a prompt is to the model, token by token.

A worker is made to say the prompt: its tokens stand in place of draws. When it is lost, another
one says it from the beginning.
"""

from __future__ import annotations

import asyncio

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.branches import MOST_MOVES
from multiverse_router.fleet.link import new_branch
from multiverse_router.fleet.pool import Pool
from multiverse_router.fleet.session import Lost, Session, Told
from multiverse_router.fleet.worker import Home
from multiverse_router.logprobs import Logprobs, TokenLogprob
from multiverse_router.model import ServedModel
from multiverse_router.placement.view import Progress
from multiverse_router.request import AnswerRequest
from multiverse_router.wire import context_message, salt_of
from multiverse_shared.errors import DeadlineExceeded, WorkerUnavailable, error_from_grpc
from multiverse_shared.tree import Text, linearise


async def prompt_logprobs(
    pool: Pool, model: ServedModel, request: AnswerRequest
) -> tuple[TokenLogprob, ...]:
    """Logprobs of all tokens of a prompt without blocks but the first.

    MultiverseError when no worker can say.
    """
    ids = linearise(request.prompt)
    if len(ids) < 2:
        return ()
    reader = Logprobs(model.tokenizer)
    try:
        async with asyncio.timeout(request.deadline_s):
            for _ in range(MOST_MOVES):
                said = await _said(pool, request, ids, reader)
                if said is not None:
                    return said
    except TimeoutError:
        raise DeadlineExceeded("the deadline passed while the prompt was read") from None
    raise WorkerUnavailable("worker after worker was lost while the prompt was read; try again")


async def _said(
    pool: Pool, request: AnswerRequest, ids: tuple[int, ...], reader: Logprobs
) -> tuple[TokenLogprob, ...] | None:
    """By one worker; None when it was lost."""
    session = Session(Progress(asyncio.get_running_loop().time()))
    with session, Home(pool.fleet.homeless) as home:
        salt = salt_of(request.tenant)
        worker = pool.root(pool.prefix(request.prompt, salt))
        home.move(worker)
        start = pb.Start(
            branch=new_branch(),
            request=f"{request.id}-prompt",
            salt=salt,
            context=context_message((Text((ids[0],)),)),
            sampling=pb.Sampling(
                stream="prompt", logprobs=True, top_logprobs=request.sampling.top_logprobs
            ),
            max_tokens=len(ids) - 1,
            script=ids[1:],
        )
        session.start(worker, start, len(ids), len(ids))
        entries: list[TokenLogprob] = []
        while True:
            match await session.news():
                case Told(update=update):
                    entries += [reader.entry(update, index) for index in range(len(update.ids))]
                    if update.HasField("finish"):
                        _check(update.finish)
                        worker.link.release(update.finish.lease)
                        return tuple(entries)
                case Lost():
                    return None


def _check(finish: pb.Finish) -> None:
    if finish.reason == pb.FINISH_REASON_FAILED:
        raise error_from_grpc(finish.code, finish.message)
    if finish.reason != pb.FINISH_REASON_LENGTH:
        raise WorkerUnavailable("the worker gave the prompt up; try again")
