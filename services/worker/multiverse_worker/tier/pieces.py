"""Cuts a part of a context tree into pieces of KV, each with a name that says what it is.

A piece is what stands at some positions of the spine: up to a chunk of a text (it ends where
its key is made, see `multiverse_shared.keys`), or up to a chunk's positions of a closed block,
with the tokens of all its paths. A name is made from the key after the piece and the position
of its first token, because a path that forks within a chunk travels without what stands before
it. Knows tokens and keys. Must not know engines or networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TypeAlias

from multiverse_shared.keys import CHUNK, KeyChain, after
from multiverse_shared.layout import next_position, positions
from multiverse_shared.tree import Block, Context, Item, Text

Name: TypeAlias = bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """KV at positions [start, stop) of the spine."""

    key: bytes  # content key of the context up to the end of its text, or block
    start: int
    stop: int
    ids: tuple[int, ...]  # of a text; empty for a piece of a block
    places: tuple[int, ...]  # position of each token that it holds, ascending
    chain: KeyChain  # behind it; behind the whole block for any piece of one

    @property
    def name(self) -> Name:
        """32 bytes."""
        state = blake2b(digest_size=32, person=b"kv piece")
        state.update(self.key)
        state.update(self.start.to_bytes(8, "little", signed=True))
        return state.digest()


def pieces(part: Context, chain: KeyChain) -> Iterator[Piece]:
    """All pieces of `part` (normal form), which goes on from what `chain` stands for."""
    for item in part:
        if isinstance(item, Text):
            chain = chain.of(item)
            at = 0
            for link in chain.text(item.ids):
                start, size = chain.position, link.position - chain.position
                ids = item.ids[at : at + size]
                places = tuple(range(start, link.position))
                yield Piece(link.end, start, link.position, ids, places, link)
                chain, at = link, at + size
        else:
            behind = chain.block(item)
            yield from _of_block(item, chain, behind)
            chain = behind


def text_pieces(part: Context, chain: KeyChain) -> Iterator[Piece]:
    """As `pieces`, but in linear order to the last token: the texts of blocks' paths, too.

    For engines that hold a block by its paths, not by positions.
    """
    for item in part:
        if isinstance(item, Text):
            yield from pieces((item,), chain)
        else:
            for path in item.paths:
                yield from text_pieces(path, chain.into(item))
        chain = after((item,), chain)


def _of_block(block: Block, chain: KeyChain, behind: KeyChain) -> Iterator[Piece]:
    places = sorted(positions((block,), chain.position))
    for start in range(chain.position, behind.position, CHUNK):
        stop = min(start + CHUNK, behind.position)
        held = tuple(place for place in places if start <= place < stop)
        yield Piece(behind.end, start, stop, (), held, behind)


def split(context: Context, position: int) -> tuple[Context, Context]:
    """What stands before a position of the spine (normal form), and what stands from there on.

    ValueError when the position is inside a block.
    """
    before: list[Item] = []
    at = 0
    for number, item in enumerate(context):
        if at >= position:
            return tuple(before), context[number:]
        end = next_position((item,), at)
        if end > position:
            if not isinstance(item, Text):
                raise ValueError(f"position {position} is inside a block")
            cut = position - (at if item.start is None else item.start)
            if cut <= 0:
                return tuple(before), context[number:]
            rest = (Text(item.ids[cut:]), *context[number + 1 :])
            return (*before, replace(item, ids=item.ids[:cut])), rest
        before.append(item)
        at = end
    return tuple(before), ()
