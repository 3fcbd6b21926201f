"""A tokenizer definition in which control tokens keep their ids and have no spelling.

Knows the JSON of Hugging Face tokenizers. A vocabulary may spell a control token by itself (as
a word, as a piece, as the end of merges), and a normalizer may turn other text into it; where
the token has no spelling, neither gives its id.
"""

from __future__ import annotations

import copy
import re
import secrets
from typing import Any

Definition = dict[str, Any]

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_SPACES = " \t\n\r\N{LOWER ONE EIGHTH BLOCK}"  # the block is SentencePiece's space


def is_control(token: Definition) -> bool:
    """Whether an entry of `added_tokens` is more than text: all but runs of spaces are."""
    return bool(token.get("special")) or bool(token["content"].strip(_SPACES))


def unspelled(definition: Definition) -> Definition:
    """A copy in which a secret stands for the spelling of each control token."""
    result = {**definition, "added_tokens": copy.deepcopy(definition.get("added_tokens") or [])}
    model = dict(definition["model"])
    falls_back = bool(model.get("byte_fallback"))
    secret = secrets.token_hex(16)
    names: dict[str, str] = {}
    for token in result["added_tokens"]:
        spelling = token["content"]
        if is_control(token) and not (falls_back and _BYTE.fullmatch(spelling)):
            names[spelling] = token["content"] = f"\ue000{secret}:{token['id']}\ue000"
            token["special"] = True
    if unknown := _unknown(model):
        names.setdefault(unknown, f"\ue000{secret}:unknown\ue000")
    result["model"] = _renamed(model, names)
    result["post_processor"] = None  # it adds control tokens by name, and nobody asks it to
    return result


def _unknown(model: Definition) -> str | None:
    """How the vocabulary spells its token for unknown text, which no text should say by name."""
    index = model.get("unk_id")
    token = model["vocab"][index][0] if isinstance(index, int) else model.get("unk_token")
    return token if isinstance(token, str) else None


def _renamed(model: Definition, names: dict[str, str]) -> Definition:
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):  # Unigram: [piece, score] by id
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in vocabulary]
    else:
        model["vocab"] = {names.get(piece, piece): index for piece, index in vocabulary.items()}
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if "merges" in model:
        prefix = model.get("continuing_subword_prefix") or ""
        pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        model["merges"] = [
            [left, right]
            for left, right in pairs
            if names.keys().isdisjoint((left, right, left + right.removeprefix(prefix)))
        ]
    return model
