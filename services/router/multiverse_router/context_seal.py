"""Context trees that a client may keep: ids in a text that only this server can have made.

A sealed context is an HMAC-SHA256 in base64url, and behind it the tree: one byte that says whether
zlib was worth it, then the protobuf `Context`, all in base64url. The signature also covers the
layout that the tree was made for, so it never meets another tokenizer. Nothing of what a client
sends is decoded before its signature is checked.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence

from google.protobuf.message import DecodeError

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.wire import context_message, context_of
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tree import Context

MAX_SEALED_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 8 << 20  # of the protobuf message, unpacked
_SIGNATURE_CHARACTERS = 43
_PLAIN, _PACKED = b"\0", b"\1"

log = logging.getLogger(__name__)


class ContextSeal:
    """Seals with the first of `keys` and opens with any of them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        assert keys
        self._keys = tuple(keys)

    @classmethod
    def of(cls, setting: str) -> ContextSeal:
        """From keys with commas between them; a random key when there is none."""
        if setting:
            return cls([key.strip().encode() for key in setting.split(",")])
        log.info(
            "no MULTIVERSE_ROUTER_CONTEXT_KEY: signed contexts are known to this process only, "
            "and until it ends"
        )
        return cls([secrets.token_bytes(32)])

    def seal(self, context: Context, layout: str) -> str | None:
        """The sealed form of a tree whose blocks are all closed; None when it is too large."""
        message = context_message(context).SerializeToString()
        if len(message) > MAX_MESSAGE_BYTES:
            return None
        packed = zlib.compress(message)
        smaller = len(packed) < len(message)
        payload = _text(_PACKED + packed if smaller else _PLAIN + message)
        sealed = _sign(self._keys[0], layout, payload) + payload
        return sealed.decode() if len(sealed) <= MAX_SEALED_BYTES else None

    def open(self, sealed: str, layout: str, field: str) -> Context:
        """The tree in normal form. InvalidRequest names `field` when this is not our seal."""
        if len(sealed) > MAX_SEALED_BYTES:
            raise InvalidRequest(
                f"{field}: a context has at most {MAX_SEALED_BYTES} characters; send the content "
                "instead",
                field=field,
            )
        data = sealed.encode()
        signature, payload = data[:_SIGNATURE_CHARACTERS], data[_SIGNATURE_CHARACTERS:]
        if not any(hmac.compare_digest(signature, _sign(k, layout, payload)) for k in self._keys):
            raise InvalidRequest(
                f"{field}: not signed by this server for the model it serves now; send it as it "
                "was given, or send the content instead",
                field=field,
            )
        try:
            return context_of(pb.Context.FromString(_unpacked(urlsafe_b64decode(payload))))
        except (ValueError, zlib.error, DecodeError) as error:
            raise InvalidRequest(f"{field}: can't be read: {error}", field=field) from None


def _sign(key: bytes, layout: str, payload: bytes) -> bytes:
    signed = b"\0".join((b"multiverse.context.1", layout.encode(), payload))
    return _text(hmac.digest(key, signed, hashlib.sha256)).rstrip(b"=")


def _text(data: bytes) -> bytes:
    return urlsafe_b64encode(data)


def _unpacked(data: bytes) -> bytes:
    """The protobuf message; ValueError when it is larger than any that is sealed."""
    if data[:1] == _PLAIN:
        return data[1:]
    unpacker = zlib.decompressobj()
    message = unpacker.decompress(data[1:], MAX_MESSAGE_BYTES)
    if not unpacker.eof:
        raise ValueError("larger than any context")
    return message
