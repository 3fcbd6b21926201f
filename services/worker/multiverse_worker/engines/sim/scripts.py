"""Where the simulator's tokens come from: a script per path, instead of a model.

A token is a function of (request seed, path, index in the path) and of nothing that depends on
timing or caches, so a replay from any token goes on alike. Knows ids only.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol

from multiverse_shared.tree import Context
from multiverse_worker.contract import Start

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class Script(Protocol):
    """The tokens of one path."""

    def __call__(self, index: int, attempt: int = 0) -> int:
        """The token with this index in the path.

        `attempt` rises by one each time the token named before was banned; tokens of attempts
        differ as long as the script has others.
        """


class ScriptSource(Protocol):
    """Writes the answers of an engine."""

    vocab_size: int

    def script(self, start: Start, context: Context) -> Script:
        """The script of the path that `start` decodes on; `context` is the full one."""


class NoiseScripts:
    """Evenly distributed ids: for tests of an engine that need no language."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def script(self, start: Start, context: Context) -> Script:
        return Noise(path_seed(start), range(self.vocab_size))


class Noise:
    """Ids of `pool`, each as likely as any other."""

    def __init__(self, seed: int, pool: range | tuple[int, ...]) -> None:
        self._seed = seed
        self._pool = pool

    def __call__(self, index: int, attempt: int = 0) -> int:
        return self._pool[(mix(self._seed + index * _GOLDEN) + attempt) % len(self._pool)]


def path_seed(start: Start) -> int:
    """64 bits that name the path of a request."""
    state = blake2b(digest_size=8, person=b"script")
    state.update(start.sampling.seed.to_bytes(8, "little"))
    state.update(start.sampling.stream.encode())
    return int.from_bytes(state.digest(), "little")


def mix(value: int) -> int:
    """The finalizer of splitmix64: 64 well-spread bits."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
