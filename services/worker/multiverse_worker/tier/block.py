"""A block as it lies in the tier: KV bytes behind a header that says what they must be.

    magic 4 | flags 1 | digest 16 | stored bytes ...

The digest is BLAKE2b of name, flags, raw length and stored bytes, keyed where workers share a
secret: so a block that was changed, cut, or put under another name is seen as such, and with a
secret nobody else can make one.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import blake2b

import zstandard

_MAGIC = b"MVK1"
_DIGEST = 16
_LENGTH = 8
_HEADER = len(_MAGIC) + 1 + _LENGTH + _DIGEST
_COMPRESSED = 1


class BlockError(Exception):
    """The bytes are not the block of that name, unchanged."""


@dataclass(frozen=True, slots=True)
class BlockForm:
    """How blocks are written; any form with the same secret is read."""

    zstd_level: int = 0  # 0: not compressed
    secret: bytes = b""  # at most 64 bytes
    most_bytes: int = 256 << 20  # of a block, uncompressed

    def write(self, name: bytes, raw: bytes) -> bytes:
        """The block of that name."""
        flags, stored = 0, raw
        if self.zstd_level:
            packed = zstandard.ZstdCompressor(level=self.zstd_level).compress(raw)
            if len(packed) < len(raw):
                flags, stored = _COMPRESSED, packed
        head = bytes([flags]) + len(raw).to_bytes(_LENGTH, "little")
        return _MAGIC + head + self._digest(name, head, stored) + stored

    def read(self, name: bytes, block: bytes) -> bytes:
        """The KV bytes. BlockError unless they are just what was written under `name`."""
        if len(block) < _HEADER or block[: len(_MAGIC)] != _MAGIC:
            raise BlockError("no block, or one of another version")
        head = block[len(_MAGIC) : len(_MAGIC) + 1 + _LENGTH]
        digest = block[_HEADER - _DIGEST : _HEADER]
        stored = block[_HEADER:]
        if not hmac.compare_digest(digest, self._digest(name, head, stored)):
            raise BlockError("the checksum is wrong")
        size = int.from_bytes(head[1:], "little")
        if not head[0] & _COMPRESSED:
            return stored
        if size > self.most_bytes:
            raise BlockError(f"{size} bytes are too many")
        try:
            if zstandard.frame_content_size(stored) != size:
                raise BlockError("it is not as long as it says")
            return zstandard.ZstdDecompressor().decompress(stored)
        except zstandard.ZstdError as error:
            raise BlockError(str(error)) from None

    def _digest(self, name: bytes, head: bytes, stored: bytes) -> bytes:
        state = blake2b(digest_size=_DIGEST, key=self.secret, person=b"kv block")
        for part in (name, head, stored):
            state.update(part)
        return state.digest()
