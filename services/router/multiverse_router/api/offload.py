"""Where a request is made from its body: on the event loop when small, else in a thread.

Rendering and encoding a long prompt takes longer than streams may wait. For a short one the way
into a thread and back is what takes long: on a busy loop the thread waits for the interpreter's
lock for up to a switch interval (5 ms), an encoding of a few hundred characters takes 0.1 ms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from pydantic import BaseModel

MOST_INLINE = 2048  # characters, or ids
P = ParamSpec("P")
T = TypeVar("T")


async def made_from(body: Any, make: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """`make(*args, **options)`, whose work grows with what `body` holds."""
    if is_small(body, MOST_INLINE):
        return make(*args, **options)
    return await asyncio.to_thread(make, *args, **options)


def is_small(value: Any, most: int) -> bool:
    """Whether texts and numbers in `value` add up to at most `most`; looks no further than that."""
    left = most
    waiting: list[Iterable[Any]] = [[value]]
    while waiting:
        for item in waiting.pop():
            if isinstance(item, str):
                left -= len(item)
            elif isinstance(item, BaseModel):
                waiting.append(item.__dict__.values())
            elif isinstance(item, dict):
                waiting.append(item.values())
            elif isinstance(item, list | tuple):
                waiting.append(item)
            left -= 1
            if left < 0:
                return False
    return True
