"""Cancellation that a library swallowed."""

from __future__ import annotations

import asyncio


def raise_if_cancelled() -> None:
    """To be called behind a library's call in a loop, and where its errors are caught.

    grpc.aio may answer a cancellation with the error of a stream that broke just then;
    redis.asyncio may end a command in spite of one, and say nothing.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
