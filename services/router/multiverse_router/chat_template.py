"""Messages to prompt ids by the model's own template, with client text kept apart.

Client text is wrapped in marks before rendering; afterwards what stands between marks is
encoded as plain text, so control tags in it never become control ids, while the template's
own tags do.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from multiverse_shared.errors import InvalidModel, InvalidRequest
from multiverse_shared.tokenizer import TextTokenizer

_CUT = "the model's chat template cuts this text, so tags in it can't be told from its own"


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

    def encode(self, messages: Sequence[Mapping[str, str]], tokenizer: TextTokenizer) -> list[int]:
        """Prompt ids. InvalidRequest when the template refuses the messages."""
        nonce = secrets.token_hex(8)
        opening, closing = f"\ue000{nonce}\ue001", f"\ue002{nonce}\ue003"
        marked = [
            {**message, "content": f"{opening}{message['content']}{closing}"}
            for message in messages
        ]
        try:
            text = self._template.render(
                messages=marked, add_generation_prompt=True, **self._variables
            )
        except jinja2.TemplateError as error:
            raise InvalidRequest(f"the model's chat template: {error}", field="messages") from None
        ids: list[int] = []
        inside = False
        for piece in re.split(f"({opening}|{closing})", text):
            if piece in (opening, closing):
                if inside == (piece == opening):
                    raise InvalidRequest(_CUT, field="messages")
                inside = piece == opening
            elif nonce in piece:
                raise InvalidRequest(_CUT, field="messages")
            elif piece:
                ids += tokenizer.encode(piece) if inside else tokenizer.encode_trusted(piece)
        if inside:
            raise InvalidRequest(_CUT, field="messages")
        return ids


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)
