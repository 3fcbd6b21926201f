"""Content keys: names for KV that say exactly what was computed.

The KV of a token depends on its id, its position and all it sees, so its name does too:

    k0                     = H("root", namespace), or H("root", namespace, salt)
    each chunk of 64 ids   : k' = H("text", k, position of its first token, ids)
    the rest of a run      : the same, over fewer ids
    a closed block         : k' = H("join", k, next position, end keys of its paths in order)

A run is a stretch of tokens at consecutive positions without a block between them. A path
goes on with the run of its parent (that is where its tokens stand), so a path's end key is
the end key of the context "prefix + path". The namespace names weights, adapter and KV layout;
the salt is a tenant's, so that nobody finds what was computed for another one. Contexts with one
end key agree in ids, positions and visibility; contexts that agree have one end key, but for
forks that change nothing (one path, an empty path, a path that is nothing but a block): those
keep the name of their join. Knows no engine.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from multiverse_shared.layout import block_end
from multiverse_shared.tree import Block, Context, Text, count, normalise

CHUNK = 64
_REMEMBERED = 8  # blocks; a join asks for the ends of its paths again and again


def _digest(kind: bytes, *parts: bytes) -> bytes:
    state = blake2b(digest_size=32, person=kind)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


def short_key(key: bytes) -> int:
    """What of a content key is enough for a hint: its first eight bytes."""
    return int.from_bytes(key[:8], "big")


def _position(at: int) -> bytes:
    return at.to_bytes(8, "little", signed=True)


@dataclass(frozen=True, slots=True)
class KeyChain:
    """The key after some context, with the tokens that do not fill a chunk yet."""

    key: bytes
    start: int  # position of the first pending token
    pending: tuple[int, ...] = ()
    _end: bytes = field(default=b"", init=False, compare=False, repr=False)  # once it was asked for

    @classmethod
    def root(cls, namespace: str, salt: bytes = b"") -> KeyChain:
        salted = (salt,) if salt else ()
        return cls(_digest(b"root", namespace.encode(), *salted), 0)

    @property
    def position(self) -> int:
        """Where the next token stands."""
        return self.start + len(self.pending)

    @property
    def end(self) -> bytes:
        """The key of exactly what was read so far."""
        if not self.pending:
            return self.key
        if not self._end:
            ids = array("I", self.pending).tobytes()
            object.__setattr__(self, "_end", _digest(b"text", self.key, _position(self.start), ids))
        return self._end

    def take(self, ids: tuple[int, ...]) -> KeyChain:
        """The chain after at most one chunk's worth of `ids` more (so that it ends a chunk)."""
        grown = KeyChain(self.key, self.start, self.pending + ids)
        if len(grown.pending) < CHUNK:
            return grown
        assert len(grown.pending) == CHUNK, "take() stops at chunk borders"
        return KeyChain(grown.end, grown.position)

    @property
    def room(self) -> int:
        """Tokens until the present chunk is full."""
        return CHUNK - len(self.pending)

    def text(self, ids: tuple[int, ...]) -> list[KeyChain]:
        """The chain after each full chunk of `ids` and after the rest."""
        chains: list[KeyChain] = []
        chain, at = self, 0
        while at < len(ids):
            step = chain.room
            chain = chain.take(ids[at : at + step])
            at += step
            chains.append(chain)
        return chains

    def moved(self, position: int) -> KeyChain:
        """The same chain when the next token stands elsewhere: a new run begins there."""
        return self if position == self.position else KeyChain(self.end, position)

    def of(self, text: Text) -> KeyChain:
        """This chain where `text` starts."""
        return self if text.start is None else self.moved(text.start)

    def into(self, block: Block) -> KeyChain:
        """The chain where the paths of `block` begin, which follows this."""
        return self.moved(self.position + block.path_offset)

    def block(self, block: Block) -> KeyChain:
        """The chain after a closed block (in normal form, so not a linear one)."""
        at = block_end(block, self.position)
        ends = [chain.end for chain in path_ends(block, self.into(block))]
        return KeyChain(_digest(b"join", self.end, _position(at), *ends), at)


@lru_cache(maxsize=_REMEMBERED)
def path_ends(block: Block, chain: KeyChain) -> tuple[KeyChain, ...]:
    """The chains of the paths of a block, all of which follow `chain`."""
    return tuple(after(path, chain) for path in block.paths)


def after(context: Context, chain: KeyChain) -> KeyChain:
    """The chain when `context` (normal form) follows what `chain` stands for."""
    for item in context:
        if isinstance(item, Text):
            chain = chain.of(item)
            chain = (chain.text(item.ids) or [chain])[-1]
        else:
            chain = chain.block(item)
    return chain


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A place on the spine of a context at which its KV has a name."""

    key: bytes
    position: int  # of the token that follows
    tokens: int  # linear count of tokens before it


def content_keys(context: Context, namespace: str, salt: bytes = b"") -> list[Checkpoint]:
    """Checkpoints along the spine: each full chunk, each end of a run, each closed block."""
    out: list[Checkpoint] = []
    chain, tokens = KeyChain.root(namespace, salt), 0
    for item in normalise(context):
        if isinstance(item, Text):
            chain = chain.of(item)
            base, start = tokens, chain.position
            for link in chain.text(item.ids):
                tokens = base + link.position - start
                out.append(Checkpoint(link.end, link.position, tokens))
                chain = link
        else:
            chain = chain.block(item)
            tokens += count((item,))
            out.append(Checkpoint(chain.end, chain.position, tokens))
    return out
