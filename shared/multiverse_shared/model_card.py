"""`multiverse.json`: how a model that ships in a directory is to be spoken to.

{"dialect": "multiverse", "prompt_suffix": " in parallel", "thinking": ["<think>", "</think>"]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from multiverse_shared.dialect import Dialect, load_dialect
from multiverse_shared.errors import InvalidModel


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The dialect of a model, and what turns its parallel thinking on."""

    dialect: Dialect
    prompt_suffix: str  # appended to the last user message unless `parallel` is off
    thinking: tuple[str, str] | None = None  # tags between which the model thinks

    @classmethod
    def parse(cls, data: bytes) -> ModelCard:
        """InvalidModel names the key at fault."""
        try:
            card = json.loads(data)
        except ValueError as error:
            raise InvalidModel(f"multiverse.json is not JSON: {error}", field="model") from None
        if not isinstance(card, dict):
            raise InvalidModel("multiverse.json must be an object", field="model")
        unknown = set(card) - {"dialect", "prompt_suffix", "thinking"}
        if unknown:
            name = min(unknown)
            raise InvalidModel(f"multiverse.json: unknown key {name!r}", field=name)
        for key in ("dialect", "prompt_suffix"):
            if not isinstance(card.get(key), str):
                raise InvalidModel(f"multiverse.json: {key} must be a string", field=key)
        return cls(load_dialect(card["dialect"]), card["prompt_suffix"], _thinking(card))


def _thinking(card: Mapping[str, Any]) -> tuple[str, str] | None:
    tags = card.get("thinking")
    if tags is None:
        return None
    two = isinstance(tags, list) and len(tags) == 2 and tags[0] != tags[1]
    if not two or not all(isinstance(tag, str) and tag for tag in tags):
        raise InvalidModel(
            "multiverse.json: thinking must be two different tags, an opening and a closing one",
            field="thinking",
        )
    return tags[0], tags[1]
