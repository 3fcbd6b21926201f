"""Which worker has probably cached which contexts: by what this router sent where, and by what
workers tell of their caches (`fleet.cache_watch`).

Keys are content keys (`multiverse_shared.keys`), so equal contexts are found, trees included; a
key says all that is before it. A worker may have forgotten what it was sent: then it computes it
again, and has it once more; so an index that is wrong costs a prefill, and is right afterwards.
Its size is bounded over all workers: what was not used for longest goes first. Knows no tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from multiverse_shared.keys import content_keys, short_key
from multiverse_shared.tree import Block, Context, Text, count

MOST = 65_536  # pairs of key and worker, some 300 bytes each
ENOUGH = 64  # workers to choose from
LOOKED_AT = 8192  # tokens of a context: what is behind them is not looked for


class Place(NamedTuple):
    """A place in a context up to which a worker may have it."""

    digest: int  # short, of the key there
    tokens: int  # before it


@dataclass(frozen=True, slots=True)
class Prefix:
    """A context as far as placement knows it."""

    tokens: int
    keys: Mapping[str, Sequence[Place]] = field(default_factory=dict)
    """Of its beginning, by namespace of caches; none where there is nothing to choose."""


def prefix_keys(context: Context, namespace: str, salt: bytes = b"") -> list[Place]:
    """The keys of the beginning of a context, as far as it is worth knowing.

    `salt` is that of the tenant: what was sent for another one is not found.
    """
    beginning: list[Text | Block] = []
    left = LOOKED_AT
    for item in context:
        if left <= 0:
            break
        if isinstance(item, Text):
            item = replace(item, ids=item.ids[:left])
        beginning.append(item)
        left -= count((item,))
    found = content_keys(tuple(beginning), namespace, salt)
    return [Place(short_key(checkpoint.key), checkpoint.tokens) for checkpoint in found]


class PrefixIndex:
    """`most` is the largest number of pairs of key and worker."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._pairs = 0
        self._workers: OrderedDict[int, set[str]] = OrderedDict()  # by digest; last used is last

    def __len__(self) -> int:
        """Pairs of key and worker."""
        return self._pairs

    def coverage(self, context: Sequence[Place]) -> dict[str, int]:
        """By worker: how many tokens at the beginning of a context it has.

        Where more than ENOUGH have much of it, those that have less are left out.
        """
        found: dict[str, int] = {}
        for digest, tokens in reversed(context):
            workers = self._workers.get(digest)
            if workers:
                self._workers.move_to_end(digest)
                if len(found) < ENOUGH:
                    found = dict.fromkeys(workers, tokens) | found
        return found

    def sent(self, worker: str, context: Sequence[Place]) -> None:
        """A worker is given a context, and will have it in its cache."""
        self.held(worker, [place.digest for place in context])

    def held(self, worker: str, digests: Iterable[int]) -> None:
        """A worker has come to hold these."""
        for digest in digests:
            workers = self._workers.setdefault(digest, set())
            self._workers.move_to_end(digest)
            if worker not in workers:
                workers.add(worker)
                self._pairs += 1
        while self._pairs > self._most:
            _, workers = self._workers.popitem(last=False)
            self._pairs -= len(workers)

    def gone(self, worker: str, digests: Iterable[int]) -> None:
        """A worker does not hold these any more."""
        for digest in digests:
            workers = self._workers.get(digest, set())
            if worker in workers:
                workers.remove(worker)
                self._pairs -= 1
                if not workers:
                    del self._workers[digest]

    def forget(self, worker: str) -> None:
        """A worker has left, or was started again: its cache is gone."""
        its = [digest for digest, workers in self._workers.items() if worker in workers]
        self.gone(worker, its)
