"""`multiverse.json`: how a model that ships in a directory is to be spoken to.

{"dialect": "multiverse", "prompt_suffix": " in parallel"}
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from multiverse_shared.dialect import Dialect, load_dialect
from multiverse_shared.errors import InvalidModel


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The dialect of a model, and what turns its parallel thinking on."""

    dialect: Dialect
    prompt_suffix: str  # appended to the last user message unless `parallel` is off

    @classmethod
    def parse(cls, data: bytes) -> ModelCard:
        """InvalidModel names the key at fault."""
        try:
            card = json.loads(data)
        except ValueError as error:
            raise InvalidModel(f"multiverse.json is not JSON: {error}", field="model") from None
        if not isinstance(card, dict):
            raise InvalidModel("multiverse.json must be an object", field="model")
        unknown = set(card) - {"dialect", "prompt_suffix"}
        if unknown:
            name = min(unknown)
            raise InvalidModel(f"multiverse.json: unknown key {name!r}", field=name)
        for key in ("dialect", "prompt_suffix"):
            if not isinstance(card.get(key), str):
                raise InvalidModel(f"multiverse.json: {key} must be a string", field=key)
        return cls(load_dialect(card["dialect"]), card["prompt_suffix"])
