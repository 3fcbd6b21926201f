"""Messages to prompt text by the model's own template, with client text kept apart.

Client text is wrapped in marks before rendering, and cut out between them afterwards: whoever
encodes the pieces knows which are the template's own, with control tags in them, and which came
from a client.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from multiverse_shared.errors import InvalidModel, InvalidRequest

CUT = "the model's chat template cuts this text, so tags in it can't be told from its own"


class Piece(NamedTuple):
    """A part of a rendered prompt."""

    text: str
    message: int | None  # whose content it is; None: the template's own


class ChatTemplate:
    """A compiled template; `variables` are what it may use besides messages (bos_token, ...)."""

    def __init__(self, source: str, variables: Mapping[str, Any]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise InvalidModel(f"the chat template does not compile: {error}") from None
        self._variables = variables

    def render(self, messages: Sequence[Mapping[str, str]]) -> list[Piece]:
        """The prompt. InvalidRequest when the template refuses the messages."""
        nonce = secrets.token_hex(8)
        marked = [
            {
                **message,
                "content": f"\ue000{nonce}.{index}\ue001{message['content']}\ue002{nonce}\ue003",
            }
            for index, message in enumerate(messages)
        ]
        try:
            text = self._template.render(
                messages=marked, add_generation_prompt=True, **self._variables
            )
        except jinja2.TemplateError as error:
            raise InvalidRequest(f"the model's chat template: {error}", field="messages") from None
        return _pieces(text, nonce)


def _pieces(text: str, nonce: str) -> list[Piece]:
    """What stands between marks. InvalidRequest when the template has cut one."""
    pieces: list[Piece] = []
    message: int | None = None
    end = 0
    for mark in re.finditer(f"\ue000{nonce}\\.([0-9]+)\ue001|\ue002{nonce}\ue003|\\Z", text):
        piece, opened = text[end : mark.start()], mark[1]
        closes = mark[0] != "" and opened is None
        if nonce in piece or closes != (message is not None):
            raise InvalidRequest(CUT, field="messages")
        if piece:
            pieces.append(Piece(piece, message))
        message = int(opened) if opened else None
        end = mark.end()
    return pieces


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
