"""Refuses JSON that parsers read in different ways, or can't read: before any route sees it.

Depth is bounded, keys are unique, text is UTF-8. What is no JSON at all, and what the values
may be, is said by the routes.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from multiverse_router.api.refusals import refusal
from multiverse_router.visit import current_visit
from multiverse_shared.errors import InvalidRequest

MOST_LEVELS = 64
_LAYERS = 4
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_OPENS = ord("[")


class JsonCheck:
    """ASGI middleware; reads the whole body, which something outside it has to bound.

    With `keep` the body stays with the visit, for a log that may hold prompts.
    """

    def __init__(self, app: ASGIApp, *, keep: bool = False) -> None:
        self._app = app
        self._keep = keep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH"):
            await self._app(scope, receive, send)
            return
        body = await _whole(receive)
        if body is None:
            return
        if self._keep:
            current_visit().body = body
        if _is_json(scope):
            try:
                check_json(body)
            except InvalidRequest as error:
                await refusal(scope["path"], error)(scope, receive, send)
                return
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)


def check_json(body: bytes) -> None:
    """InvalidRequest when `body` is JSON that is not taken."""
    if body.count(b"[") + body.count(b"{") > MOST_LEVELS and _is_deep(body):
        raise _refused(f"more than {MOST_LEVELS} levels are nested; flatten it")
    try:
        json.loads(body.decode("utf-8-sig"), object_pairs_hook=_unique)
    except UnicodeDecodeError as error:
        raise _refused(f"not UTF-8 from byte {error.start} on; encode it as UTF-8") from None
    except json.JSONDecodeError:
        return  # the routes say where
    except ValueError as error:  # a number of thousands of digits
        raise _refused(str(error)) from None


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"body: {why}", field="body")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                shown = name[:64].encode("utf-8", "replace").decode()
                raise InvalidRequest(f"{shown}: given twice in one object", field=shown)
            seen.add(name)
    return found


def _is_deep(body: bytes) -> bool:
    """Whether brackets outside strings nest too deeply.

    Quick for what is deep, which is left at once, and for what is wide: pairs with nothing between
    them are taken out first, layer by layer.
    """
    brackets = _STRING.sub(b"", body).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(_LAYERS):
        brackets = brackets.replace(b"[]", b"")
    levels = accumulate(1 if bracket == _OPENS else -1 for bracket in brackets)
    return any(level > MOST_LEVELS - _LAYERS for level in levels)


def _is_json(scope: Scope) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    kind = kinds[0].partition(b";")[0].strip().lower() if kinds else b""
    return kind == b"application/json" or (kind.startswith(b"application/") and b"+json" in kind)


async def _whole(receive: Receive) -> bytes | None:
    """The body; None when its client left before the end."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)
