"""API keys: who may call, under which name, with how many answers at once.

A key is 256 random bits, so one SHA-256 of it is as safe to store as a slow hash of a password
would be, and cheap enough to compute for every call. The keyring holds hashes only. One line for
each key: NAME sha256:HEX, then what it allows, if there is a limit: concurrency=N, requests=N and
tokens=N a minute, priority=N, token_ms=N; `#` begins a comment. Several keys may have one name (to
change keys without a gap); they share its limits.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from multiverse_shared.errors import InvalidRequest, MultiverseError, Unauthenticated

PREFIX = "mv-"
MOST_CHARACTERS = 256  # of a key that is worth hashing
LOOK_EVERY_S = 1.0
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LIMITS = ("concurrency", "requests", "tokens", "priority", "token_ms")
_NOT_NONE = ("concurrency", "requests", "tokens", "token_ms")
_LINE = re.compile(
    rf"(?P<name>{_NAME.pattern})\s+sha256:(?P<hash>[0-9a-f]{{64}})"
    rf"(?P<limits>(?:\s+(?:{'|'.join(_LIMITS)})=(?:0|[1-9][0-9]{{0,8}}))*)"
)
_HOW = "send it as `Authorization: Bearer KEY` or as `x-api-key: KEY`"
_FORM = (
    "NAME sha256:HEX [concurrency=N] [requests=N] [tokens=N] [priority=N] [token_ms=N]; "
    "`multiverse key new NAME` prints such a line"
)

log = logging.getLogger(__name__)


def key_hash(key: str) -> bytes:
    """SHA-256 of a key."""
    return hashlib.sha256(key.encode()).digest()


def new_key(name: str, **limits: int | None) -> tuple[str, str]:
    """A fresh key, and its line for the key file. InvalidRequest for a name that is none.

    `limits` are those of an `Allowance`.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} names no key: use 1 to 64 letters, digits, or . _ -", field="name"
        )
    key = PREFIX + secrets.token_urlsafe(32)
    given = "".join(f" {kind}={most}" for kind, most in limits.items() if most is not None)
    return key, f"{name} sha256:{key_hash(key).hex()}{given}"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the keys of one name allow; None: no limit."""

    concurrency: int | None = None  # answers in flight
    requests: int | None = None  # answers begun in a minute
    tokens: int | None = None  # prompt and answer, in a minute
    priority: int = 0  # the higher goes first where requests and paths queue
    token_ms: int | None = None  # milliseconds a token that its answers aim at

    def ranked(self, priority: int | None) -> int:
        """The priority of a request that asks for one."""
        return self.priority if priority is None else min(priority, self.priority)

    @property
    def limited(self) -> bool:
        return (self.concurrency, self.requests, self.tokens) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Key:
    """What is known of a key."""

    name: str
    hash: bytes
    allowance: Allowance  # of its name


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys that are valid at a time."""

    keys: tuple[Key, ...]

    @classmethod
    def parse(cls, lines: Iterable[str], place: str) -> Keyring:
        """InvalidRequest names the line of `place` that is wrong."""
        keys, allowances = [], dict[str, Allowance]()
        for number, line in enumerate(lines, 1):
            stripped = line.partition("#")[0].strip()
            if not stripped:
                continue
            key = _parse_line(stripped, f"{place}, line {number}")
            if allowances.setdefault(key.name, key.allowance) != key.allowance:
                raise InvalidRequest(
                    f"{place}, line {number}: {key.name} has other limits above; "
                    "keys of one name share them",
                    field="keys",
                )
            keys.append(key)
        return cls(tuple(keys))

    def find(self, presented: str) -> Key | None:
        """The key that was presented. Takes the same time whichever it is, or none."""
        if len(presented) > MOST_CHARACTERS:
            return None
        found, hashed = None, key_hash(presented)
        for key in self.keys:
            if hmac.compare_digest(key.hash, hashed):
                found = key
        return found

    def allowance(self, name: str) -> Allowance:
        """None at all for a name that has no key (any more): what runs may end."""
        found = (key.allowance for key in self.keys if key.name == name)
        return next(found, Allowance())


class KeyFile:
    """Keys from a file and from the settings; the file is read again when it changes.

    A file that can't be read, or is wrong, changes nothing: the last good one stays valid, and
    the log says so. An empty file is a good one: nobody may call.
    """

    def __init__(
        self,
        path: Path | None,
        given: str = "",
        clock: Callable[[], float] = time.monotonic,
        setting: str = "MULTIVERSE_ROUTER_KEYS",
    ) -> None:
        """InvalidRequest or OSError when the keys can't be read; `setting` is where `given` is."""
        self._path = path
        self._given = Keyring.parse(given.split(","), setting).keys
        self._clock = clock
        self._version: tuple[int, ...] = ()
        self._looked = clock()
        self._ring = Keyring(self._given)
        if path is not None:
            self._read(path)

    @property
    def ring(self) -> Keyring:
        """The keys that are valid now: a change of the file counts within a second."""
        now = self._clock()
        if self._path is not None and now - self._looked >= LOOK_EVERY_S:
            self._looked = now
            try:
                self._read(self._path)
            except (OSError, MultiverseError) as error:
                log.error("API keys stay as they were: %s", error)
        return self._ring

    def tenant(self, headers: Mapping[str, str]) -> str:
        """Name of the key in the headers, which are by lower-case name. Unauthenticated without.

        They are those of HTTP, or the metadata of a gRPC call.
        """
        presented = presented_key(headers)
        if not presented:
            raise Unauthenticated(f"an API key is needed: {_HOW}", field="authorization")
        key = self.ring.find(presented)
        if key is None:
            raise Unauthenticated(
                f"the API key is not known here: ask for another one, and {_HOW}",
                field="authorization",
            )
        return key.name

    def _read(self, path: Path) -> None:
        status = os.stat(path)
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        if version == self._version:
            return
        self._version = version  # one that is wrong is told once
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequest(f"{path} is not UTF-8: {error}", field="keys_file") from None
        self._ring = Keyring(self._given + Keyring.parse(text.splitlines(), str(path)).keys)
        log.info("%d API keys from %s", len(self._ring.keys), path)


def presented_key(headers: Mapping[str, str]) -> str:
    """The key in the headers; `Authorization` goes first."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key", "").strip()


def _parse_line(line: str, place: str) -> Key:
    match = _LINE.fullmatch(line)
    if match is None:
        raise InvalidRequest(f"{place}: not of the form {_FORM}", field="keys")
    pairs = [pair.partition("=") for pair in match["limits"].split()]
    limits = {kind: int(most) for kind, _, most in pairs}
    if len(limits) < len(pairs) or any(not limits.get(kind, 1) for kind in _NOT_NONE):
        raise InvalidRequest(f"{place}: not of the form {_FORM}", field="keys")
    return Key(match["name"], bytes.fromhex(match["hash"]), Allowance(**limits))
