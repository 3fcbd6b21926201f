"""A tokenizer definition in which every tag of a dialect is a special token of its own.

Knows the JSON of Hugging Face tokenizers. Must not know weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from multiverse_shared.errors import InvalidModel

Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TagTokens:
    """`new` are tags that the vocabulary did not have, with their ids, in order of ids."""

    definition: Definition
    ids: dict[str, int]
    new: dict[str, int]


def with_tags(definition: Definition, tags: Iterable[str]) -> TagTokens:
    """Special tokens for `tags`: those that the vocabulary spells keep their ids.

    InvalidModel when the vocabulary has holes, which leave no place for more tokens.
    """
    added = [dict(token) for token in definition.get("added_tokens") or []]
    known = _vocabulary(definition["model"]) | {token["content"]: token["id"] for token in added}
    free = len(set(known.values()))
    if max(known.values(), default=-1) >= free:
        raise InvalidModel(
            f"tokenizer.json has {free} tokens with ids up to {max(known.values())}; "
            "ids without holes are needed to add tokens",
            field="model",
        )
    ids: dict[str, int] = {}
    new: dict[str, int] = {}
    for tag in tags:
        if tag not in known:
            known[tag] = new[tag] = free
            free += 1
        ids[tag] = known[tag]
    kept = [token for token in added if token["content"] not in ids]
    entries = [*kept, *(special_token(tag, index) for tag, index in ids.items())]
    entries.sort(key=lambda token: int(token["id"]))
    return TagTokens({**definition, "added_tokens": entries}, ids, new)


def special_token(spelling: str, index: int) -> Definition:
    """An entry of `added_tokens` that leaves the text around it as it is."""
    return {
        "id": index,
        "content": spelling,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def words(tag: str) -> str:
    """What a tag stands for.

    `Parallel` for `<Parallel>` and `<Parallel/>`, `end of Parallel` for `</Parallel>`, `end` for
    a mere `/>`.
    """
    name = tag.strip("</>")
    if not name:
        return "end"
    return f"end of {name}" if tag.startswith("</") else name


def _vocabulary(model: Definition) -> dict[str, int]:
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):  # Unigram: [piece, score] by id
        return {piece: index for index, (piece, _) in enumerate(vocabulary)}
    return dict(vocabulary)
