"""Which worker has probably cached which contexts: by what this router sent where.

Keys are content keys (`multiverse_shared.keys`), so equal contexts are found, trees included. A
worker may have forgotten what it was sent: then it computes it again, and has it once more; so
an index that is wrong costs a prefill, and is right afterwards. Its size is bounded over all
workers: what was not used for longest goes first. Knows no tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from multiverse_shared.keys import Checkpoint, content_keys
from multiverse_shared.tree import Block, Context, Text, count

MOST = 65_536  # pairs of key and worker, some 300 bytes each
LOOKED_AT = 8192  # tokens of a context: what is behind them is not looked for


def prefix_keys(context: Context, namespace: str) -> list[Checkpoint]:
    """The keys of the beginning of a context, as far as it is worth knowing."""
    beginning: list[Text | Block] = []
    left = LOOKED_AT
    for item in context:
        if left <= 0:
            break
        if isinstance(item, Text):
            item = replace(item, ids=item.ids[:left])
        beginning.append(item)
        left -= count((item,))
    return content_keys(tuple(beginning), namespace)


class PrefixIndex:
    """`most` is the largest number of pairs of key and worker."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._pairs = 0
        self._workers: OrderedDict[bytes, set[str]] = OrderedDict()  # the last used is last

    def __len__(self) -> int:
        """Pairs of key and worker."""
        return self._pairs

    def coverage(self, context: Sequence[Checkpoint]) -> dict[str, int]:
        """By worker: how many tokens at the beginning of a context it has."""
        found: dict[str, int] = {}
        holders: set[str] | None = None
        for checkpoint in context:
            known = self._workers.get(checkpoint.key)
            holders = known if holders is None else holders & (known or set())
            if not holders:
                break
            self._workers.move_to_end(checkpoint.key)
            found.update(dict.fromkeys(holders, checkpoint.tokens))
        return found

    def sent(self, worker: str, context: Sequence[Checkpoint]) -> None:
        """A worker is given a context, and will have it in its cache."""
        for checkpoint in context:
            workers = self._workers.setdefault(checkpoint.key, set())
            self._workers.move_to_end(checkpoint.key)
            if worker not in workers:
                workers.add(worker)
                self._pairs += 1
        while self._pairs > self._most:
            _, workers = self._workers.popitem(last=False)
            self._pairs -= len(workers)

    def forget(self, worker: str) -> None:
        """A worker has left, or was started again: its cache is gone."""
        for key in [key for key, workers in self._workers.items() if worker in workers]:
            self._workers[key].discard(worker)
            self._pairs -= 1
            if not self._workers[key]:
                del self._workers[key]
