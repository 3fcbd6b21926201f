"""Messages to prompt text by the model's own template, with client text kept apart.

The template gets client text in disguise (see `client_text`): whoever encodes the pieces knows
which are the template's own, with control tags in them, and which came from a client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import jinja2
from jinja2.ext import Extension
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from multiverse_router.client_text import Disguise, Piece
from multiverse_shared.errors import InvalidModel, InvalidRequest

CUT = "the model's chat template cuts this text, so it can't be taken as the tree it is"

# Of a template that runs: what it raises itself, and what its expressions may come to.
_FAILURES = (jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError)


class _GenerationBlock(Extension):
    """`{% generation %}` marks what is trained on; a prompt is written as if it were not there."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template; `variables` are what it may use besides messages (bos_token, ...)."""

    def __init__(self, source: str, variables: Mapping[str, Any]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _GenerationBlock],
        )
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        environment.filters["tojson"] = _json
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateError as error:
            raise InvalidModel(f"the chat template does not compile: {error}") from None
        self._variables = variables
        self._source = source

    def names(self, role: str) -> bool:
        """Whether the template may treat `role` in a way of its own."""
        return role in self._source

    @property
    def beginning(self) -> str:
        """The token that begins a sequence, where the template writes it."""
        bos = str(self._variables.get("bos_token") or "")
        return bos if "bos_token" in self._source or (bos and bos in self._source) else ""

    def render(self, messages: Sequence[Mapping[str, str]]) -> list[Piece]:
        """The prompt by author; every field of a message but its role is the client's.

        InvalidRequest when the template refuses the messages.
        """
        disguise = Disguise()
        disguised = [
            {
                name: value if name == "role" else disguise.put_on(value, index)
                for name, value in message.items()
            }
            for index, message in enumerate(messages)
        ]
        try:
            text = self._template.render(
                messages=disguised, add_generation_prompt=True, **self._variables
            )
        except _FAILURES as error:
            raise InvalidRequest(f"the model's chat template: {error}", field="messages") from None
        return list(disguise.take_off(text))


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _json(value: Any, indent: int | None = None) -> str:
    """JSON for models, not for browsers: no character is escaped that need not be."""
    return json.dumps(value, ensure_ascii=False, indent=indent)
