"""Whether a tokenizer and a vocabulary can carry a dialect.

Knows tokenizers and numbers; files, templates and weights are read by others, who add their
findings to these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from multiverse_shared.dialect import Dialect
from multiverse_shared.neighbours import NEIGHBOURS
from multiverse_shared.tokenizer import TextTokenizer

Ids = tuple[int, ...]


class Verdict(StrEnum):
    OK = "ok"
    NOTE = "note"
    REFUSED = "refused"  # the model cannot be served as it is


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says."""

    check: str
    verdict: Verdict
    message: str
    tag: str | None = None  # at fault
    example: str | None = None  # text that shows it
    remedy: str | None = None


def check_text(tokenizer: TextTokenizer) -> Finding:
    """Whether the tokenizer takes any text, and gives back the 200 common strings."""
    try:
        lost = [text for text in NEIGHBOURS if tokenizer.decode(tokenizer.encode(text)) != text]
    except Exception as error:  # the library raises nothing narrower
        return Finding(
            "tokenizer",
            Verdict.REFUSED,
            f"the tokenizer fails on some text: {error}",
            remedy="give its vocabulary a token for unknown text",
        )
    told = f"{tokenizer.vocab_size} tokens"
    if not lost:
        return Finding("tokenizer", Verdict.OK, f"{told}, gives back common text as it was")
    message = f"{told}; {len(lost)} of {len(NEIGHBOURS)} common strings come back changed"
    return Finding("tokenizer", Verdict.NOTE, f"{message}, as {lost[0]!r}", example=lost[0])


def check_tags(dialect: Dialect, tokenizer: TextTokenizer, remedy: str) -> list[Finding]:
    """One finding for each tag at fault (the first fault of it), or one that all are well.

    A tag is the ids that the tokenizer gives it encoded alone. They must say the tag, stay the
    same beside each of 200 common strings and each tag, leave those as they are, and not begin
    another tag.
    """
    tags = {name: tuple(tokenizer.encode_trusted(name)) for name in dialect.tags.values()}
    neighbours = (*NEIGHBOURS, *tags)
    alone = {text: tuple(tokenizer.encode_trusted(text)) for text in neighbours}
    found: list[Finding] = []
    for name, ids in tags.items():
        fault = _misread(ids, name, tokenizer) or _prefix(name, tags)
        example = None
        if not fault:
            example = _merged(name, ids, alone, tokenizer)
            if example is not None:
                there = tokenizer.encode_trusted(example)
                fault = f"merges with its neighbour: {list(ids)} alone, in {example!r} {there}"
        if fault:
            found.append(Finding("tags", Verdict.REFUSED, f"{name} {fault}", name, example, remedy))
    if found:
        return found
    longest = max(map(len, tags.values()))
    well = f"{len(tags)} tags of 1 to {longest} ids" if longest > 1 else f"{len(tags)} tags"
    return [
        Finding("tags", Verdict.OK, f"{well} stay whole beside {len(neighbours)} texts"),
        *_spelled_by_clients(tags, tokenizer, remedy),
    ]


def check_offsets(dialect: Dialect) -> Finding:
    """Offsets put two tokens on one position, which not every engine can do."""
    offsets = f"paths {dialect.path_offset:+d}, join {dialect.join_offset:+d}"
    if dialect.path_offset == 0 and dialect.join_offset == 0:
        return Finding("positions", Verdict.OK, f"no offsets, any engine ({dialect.rule} rule)")
    return Finding(
        "positions",
        Verdict.NOTE,
        f"the dialect shifts positions ({offsets}): needs an engine with free positions",
        remedy="on llama.cpp: multiverse serve --positions sequential, without the shift",
    )


def check_eos(eos: Sequence[int], dialect: Dialect, tokenizer: TextTokenizer) -> Finding:
    """The end of a sequence must be a token, and no tag."""
    for index in eos:
        if not 0 <= index < tokenizer.vocab_size:
            return Finding(
                "end",
                Verdict.REFUSED,
                f"the tokenizer has no token {index}",
                remedy="correct eos_token_id in generation_config.json",
            )
        for name in dialect.tags.values():
            if index in tokenizer.encode_trusted(name):
                return Finding(
                    "end",
                    Verdict.REFUSED,
                    f"token {index} ends a sequence and belongs to {name}",
                    tag=name,
                    remedy="choose another eos_token_id in generation_config.json",
                )
    told = ", ".join(f"{tokenizer.decode([index])} ({index})" for index in eos)
    return Finding("end", Verdict.OK, f"a sequence ends with {told}")


def check_sizes(tokenizer: int, config: int, rows: Mapping[str, int], remedy: str) -> Finding:
    """Tokens of the tokenizer, `vocab_size` of the configuration, rows of the weights by name."""
    odd = [f"{name} has {count} rows" for name, count in rows.items() if count != config]
    if odd:
        return Finding(
            "vocabulary",
            Verdict.REFUSED,
            f"config.json says vocab_size {config}, but {odd[0]}",
            remedy="fetch config.json and weights that belong together",
        )
    if tokenizer > config:
        return Finding(
            "vocabulary",
            Verdict.REFUSED,
            f"the tokenizer has {tokenizer} tokens, the model only {config} rows",
            remedy=remedy,
        )
    return Finding(
        "vocabulary", Verdict.OK, f"{tokenizer} tokens, {config} rows ({config - tokenizer} spare)"
    )


def _misread(ids: Ids, name: str, tokenizer: TextTokenizer) -> str | None:
    if not ids:
        return "gives no ids"
    if tokenizer.unknown_id in ids:
        return f"is unknown to the tokenizer: {list(ids)}"
    told = tokenizer.decode(ids)
    return None if told.strip() == name else f"reads {told!r} when it is decoded: {list(ids)}"


def _prefix(name: str, tags: Mapping[str, Ids]) -> str | None:
    """Another tag that begins with the ids of this one would never be reached."""
    ids = tags[name]
    for other, longer in tags.items():
        if other != name and longer[: len(ids)] == ids:
            return f"is how {other} begins: {list(ids)} and {list(longer)}"
    return None


def _merged(name: str, ids: Ids, alone: Mapping[str, Ids], tokenizer: TextTokenizer) -> str | None:
    """The first text in which the tag's ids, or those of what stands beside it, are others."""
    for neighbour, expected in alone.items():
        before = tuple(tokenizer.encode_trusted(neighbour + name))
        if before[-len(ids) :] != ids or not _alike(before[: -len(ids)], expected, tokenizer):
            return neighbour + name
        after = tuple(tokenizer.encode_trusted(name + neighbour))
        if after[: len(ids)] != ids or not _alike(after[len(ids) :], expected, tokenizer):
            return name + neighbour
    return None


def _alike(beside: Ids, alone: Ids, tokenizer: TextTokenizer) -> bool:
    """The same text, but for the space that some tokenizers put before a text."""
    if beside == alone:
        return True
    here, there = tokenizer.decode(beside), tokenizer.decode(alone)
    return here.removeprefix(" ") == there.removeprefix(" ")


def _spelled_by_clients(
    tags: Mapping[str, Ids], tokenizer: TextTokenizer, remedy: str
) -> list[Finding]:
    """Tags of ordinary tokens are what anyone may write."""
    told = [name for name, ids in tags.items() if tokenizer.control_ids.isdisjoint(ids)]
    if not told:
        return []
    message = f"{told[0]} is made of ordinary tokens, so a client's text can be that tag"
    if len(told) > 1:
        message += f" (and {len(told) - 1} more tags)"
    return [Finding("tags", Verdict.NOTE, message, told[0], remedy=remedy)]
