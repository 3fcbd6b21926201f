"""A grammar is a dialect bound to a tokenizer: tags and templates as token ids.

Knows ids, and text only while binding. The state machine works on what stands here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from multiverse_shared.dialect import Dialect, Tag
from multiverse_shared.errors import InvalidDialect

Ids = tuple[int, ...]


class Tokenizer(Protocol):
    """What a grammar needs of a tokenizer."""

    def encode(self, text: str) -> Sequence[int]:
        """Ids of plain text: control tags in it are ordinary characters."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids."""

    def token_id(self, token: str) -> int | None:
        """Id of the special token spelled `token`, if there is one."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """A dialect in token ids."""

    dialect: Dialect
    tags: Mapping[Tag, int]
    separator: Ids
    after_plan: Ids
    path_tail: Ids
    join_header: Ids
    tokenizer: Tokenizer = field(repr=False)
    tag_of: Mapping[int, Tag] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tag_of", {token: tag for tag, token in self.tags.items()})

    @classmethod
    def bind(cls, dialect: Dialect, tokenizer: Tokenizer) -> Grammar:
        """InvalidDialect names the first tag that is not a token of its own."""
        tags: dict[Tag, int] = {}
        for tag, spelling in dialect.tags.items():
            token = tokenizer.token_id(spelling)
            if token is None:
                raise InvalidDialect(
                    f"the tokenizer has no special token {spelling!r} ({tag.value} of dialect "
                    f"{dialect.name!r}); add it as a special token and train its row",
                    field="dialect",
                )
            tags[tag] = token
        return cls(
            dialect,
            tags,
            separator=_ids(dialect.separator, dialect, tags, tokenizer),
            after_plan=_ids(dialect.after_plan, dialect, tags, tokenizer),
            path_tail=_ids(dialect.path_tail, dialect, tags, tokenizer),
            join_header=_ids(dialect.join_header, dialect, tags, tokenizer),
            tokenizer=tokenizer,
        )

    def path_header(self, label: str) -> Ids:
        """What the system writes at the start of the path with this label."""
        return self._fill(self.dialect.path_header, label)

    def outline_label(self, label: str) -> Ids:
        """How the body of an outline with this label begins."""
        return self._fill(self.dialect.outline_label, label)

    def _fill(self, template: str, label: str) -> Ids:
        text = template.replace("{label}", label)
        return _ids(text, self.dialect, self.tags, self.tokenizer)


def _ids(text: str, dialect: Dialect, tags: Mapping[Tag, int], tokenizer: Tokenizer) -> Ids:
    """Ids of a template: tags are control ids, the text between them is encoded alone."""
    out: list[int] = []
    while text:
        found = [(text.find(spelling), tag) for tag, spelling in dialect.tags.items()]
        at, tag = min((hit for hit in found if hit[0] >= 0), default=(len(text), None))
        if at:
            out.extend(tokenizer.encode(text[:at]))
        if tag is None:
            break
        out.append(tags[tag])
        text = text[at + len(dialect.tags[tag]) :]
    return tuple(out)
