"""A grammar is a dialect bound to a tokenizer: tags and templates as token ids.

A tag is the fixed sequence of ids (one or several) that the tokenizer gives its spelling
alone; no other spelling is the tag. Knows ids, and text only while binding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from multiverse_shared.dialect import Dialect, Tag
from multiverse_shared.errors import InvalidDialect

Ids = tuple[int, ...]
_SHORT_NUMBER = 2  # digits: headers of these are kept, they are asked for at every fork
REMEDY = "`multiverse model add-tags DIR`"


class Tokenizer(Protocol):
    """What a grammar needs of a tokenizer."""

    def encode(self, text: str) -> Sequence[int]:
        """Ids of plain text: control tags in it are ordinary characters."""

    def encode_trusted(self, text: str) -> Sequence[int]:
        """Ids of text in which control tags are meant."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """A dialect in token ids."""

    dialect: Dialect
    tags: Mapping[Tag, Ids]
    separator: Ids
    after_plan: Ids
    path_tail: Ids
    join_header: Ids
    join_tags: frozenset[Tag]  # those that the join header writes
    tokenizer: Tokenizer = field(repr=False)
    tag_of: Mapping[Ids, Tag] = field(init=False, repr=False)
    beginnings: frozenset[Ids] = field(init=False, repr=False)  # of tags of several ids
    _headers: dict[str, Ids] = field(init=False, repr=False, compare=False)  # by number

    def __post_init__(self) -> None:
        object.__setattr__(self, "tag_of", {ids: tag for tag, ids in self.tags.items()})
        beginnings = {ids[:n] for ids in self.tags.values() for n in range(1, len(ids))}
        object.__setattr__(self, "beginnings", frozenset(beginnings))
        object.__setattr__(self, "_headers", {})

    @classmethod
    def bind(cls, dialect: Dialect, tokenizer: Tokenizer) -> Grammar:
        """InvalidDialect names the first tag that the tokenizer cannot carry."""
        tags = {tag: _tag(tag, dialect, tokenizer) for tag in dialect.tags}
        _check_apart(dialect, tags)
        header = _parts(dialect.join_header, dialect)
        return cls(
            dialect,
            tags,
            separator=_ids(dialect.separator, dialect, tags, tokenizer),
            after_plan=_ids(dialect.after_plan, dialect, tags, tokenizer),
            path_tail=_ids(dialect.path_tail, dialect, tags, tokenizer),
            join_header=_ids(dialect.join_header, dialect, tags, tokenizer),
            join_tags=frozenset(part for part in header if isinstance(part, Tag)),
            tokenizer=tokenizer,
        )

    def path_header(self, label: str) -> Ids:
        """What the system writes at the start of the path with this label."""
        if not (label.isascii() and label.isdigit() and len(label) <= _SHORT_NUMBER):
            return self._fill(self.dialect.path_header, label)
        if label not in self._headers:
            self._headers[label] = self._fill(self.dialect.path_header, label)
        return self._headers[label]

    def outline_label(self, label: str) -> Ids:
        """How the body of an outline with this label begins."""
        return self._fill(self.dialect.outline_label, label)

    def _fill(self, template: str, label: str) -> Ids:
        text = template.replace("{label}", label)
        return _ids(text, self.dialect, self.tags, self.tokenizer)


def _tag(tag: Tag, dialect: Dialect, tokenizer: Tokenizer) -> Ids:
    spelling = dialect.tags[tag]
    ids = tuple(tokenizer.encode_trusted(spelling))
    fault = ""
    if tokenizer.decode(ids) != spelling:
        fault = "the tokenizer cannot spell"
    elif len(ids) == 1 and tuple(tokenizer.encode(spelling)) == ids:
        fault = "plain text makes the token of"
    if fault:
        raise InvalidDialect(
            f"{fault} {spelling!r} ({tag.value} of dialect {dialect.name!r}); "
            f"make it a special token: {REMEDY}",
            field="dialect",
        )
    return ids


def _check_apart(dialect: Dialect, tags: Mapping[Tag, Ids]) -> None:
    """A tag may be the end of another one, but stand nowhere else in it."""
    for tag, ids in tags.items():
        for other, longer in tags.items():
            places = range(len(longer) - len(ids))
            if tag is not other and any(longer[at : at + len(ids)] == ids for at in places):
                raise InvalidDialect(
                    f"the ids of tag {dialect.tags[tag]!r} stand within those of "
                    f"{dialect.tags[other]!r}; give each tag a token of its own: {REMEDY}",
                    field="dialect",
                )


def _parts(text: str, dialect: Dialect) -> list[str | Tag]:
    """A template cut into its tags and the text between them."""
    out: list[str | Tag] = []
    while text:
        found = [
            (text.find(spelling), -len(spelling), tag) for tag, spelling in dialect.tags.items()
        ]
        at, size, tag = min((hit for hit in found if hit[0] >= 0), default=(len(text), 0, None))
        if at:
            out.append(text[:at])
        if tag is not None:
            out.append(tag)
        text = text[at - size :]
    return out


def _ids(text: str, dialect: Dialect, tags: Mapping[Tag, Ids], tokenizer: Tokenizer) -> Ids:
    """Ids of a template: tags are control ids, the text between them is encoded alone."""
    parts = _parts(text, dialect)
    return tuple(
        token
        for part in parts
        for token in (tags[part] if isinstance(part, Tag) else tokenizer.encode(part))
    )
