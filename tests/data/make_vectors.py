"""Makes layout_linear.json, layout_reserve.json and layout_pasta.json beside this file.

`python -m tests.data.make_vectors [FOLDER]`. What is expected comes from the definitions
(`tests.unit.shared.definition`), never from the product's own layout.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.trees import tree_of
from tests.unit.shared.definition import Definition

from multiverse_shared.tree import JoinRule

HERE = Path(__file__).parent
Items = list[dict[str, Any]]
RULES = {
    "linear": "while a block is open its paths start right behind the token before it and do not "
    "see each other; once it is closed it is its plain text",
    "reserve": "stitch, but a text with a start stands there, whatever was before it: a gap or "
    "an overlap; the token after a block stands one after the largest position reached inside it",
    "pasta": "a promise opens a block of the async and the rest of the main thread; the next "
    "promise before a sync does so inside that rest; a sync closes all of them; rule stitch",
}


# -- items as JSON; ids are numbered at the end ------------------------------------------------


def text(size: int, start: int | None = None) -> dict[str, Any]:
    return {"text": [0] * size} if start is None else {"text": [0] * size, "start": start}


def block(*paths: Items, closed: bool = True) -> dict[str, Any]:
    return {"paths": list(paths)} if closed else {"paths": list(paths), "closed": False}


def still_open(*paths: Items) -> dict[str, Any]:
    return block(*paths, closed=False)


def number(items: Items, first: int = 1) -> int:
    """Give the tokens the ids first, first + 1, ... in linear order; returns the next one."""
    for item in items:
        if "text" in item:
            size = len(item["text"])
            item["text"] = list(range(first, first + size))
            first += size
        else:
            for path in item["paths"]:
                first = number(path, first)
    return first


# -- the main thread of PASTA ------------------------------------------------------------------


@dataclass(slots=True)
class MainThread:
    """A main thread as it is written, and the tree that it makes."""

    reserve: bool
    items: Items = field(default_factory=list)  # of the innermost rest
    outer: list[Items] = field(default_factory=list)  # of the rests around it
    at: int = 0  # position of the next token
    top: int = 0  # one after the largest position reached
    moved: bool = False  # whether the next token skips ahead

    def write(self, size: int) -> None:
        self._text(self.items, size, self.at if self.moved else None)
        self.moved = self.moved and not size
        self.at += size
        self.top = max(self.top, self.at)

    def promise(self, size: int, promised: int) -> None:
        """An async of `size` tokens that `promised` tokens were promised for."""
        rest: Items = []
        content: Items = []
        self._text(content, size, self.at if self.moved else None)
        self.items.append(still_open(content, rest))
        self.outer.append(self.items)
        self.items = rest
        if size:
            self.top = max(self.top, self.at + size)
        if self.reserve:
            self.at += 10 * round(promised / 10)
            self.moved = True

    def sync(self) -> None:
        while self.outer:
            self.items = self.outer.pop()
            del self.items[-1]["closed"]
        self.at = self.top
        self.moved = False

    @staticmethod
    def _text(items: Items, size: int, start: int | None) -> None:
        if size:
            items.append(text(size, start))

    @property
    def context(self) -> Items:
        return self.outer[0] if self.outer else self.items


def thread(script: str, *, reserve: bool = False) -> Items:
    """`3 a5:20 2 sync`: three tokens, an async of five that twenty were promised for, ..."""
    main = MainThread(reserve)
    for word in script.split():
        if word == "sync":
            main.sync()
        elif word.startswith("a"):
            size, _, promised = word[1:].partition(":")
            main.promise(int(size), int(promised or size))
        else:
            main.write(int(word))
    return main.context


def random_script(rng: random.Random) -> str:
    words = [str(rng.randint(1, 4))]
    while len(words) < rng.randint(4, 12):
        kind = rng.random()
        if kind < 0.45:
            words.append(f"a{rng.randint(0, 6)}:{rng.choice([3, 8, 10, 17, 25])}")
        elif kind < 0.8:
            words.append(str(rng.randint(1, 4)))
        else:
            words += ["sync", str(rng.randint(1, 3))]
    return " ".join(words)


# -- random trees ------------------------------------------------------------------------------


def random_items(rng: random.Random, depth: int, *, starts: bool, is_open: bool) -> Items:
    """Random items; with `is_open` they end in an open block, whose paths may do so as well."""
    items: Items = [text(rng.randint(1, 3))] if rng.random() < 0.9 else []
    for _ in range(rng.randint(0, 2)):
        if depth and rng.random() < 0.5:
            items.append(_random_block(rng, depth, starts=starts, is_open=False))
        else:
            start = 10 * rng.randint(0, 4) if starts and rng.random() < 0.6 else None
            items.append(text(rng.randint(1, 4), start))
    if is_open:
        items.append(_random_block(rng, depth, starts=starts, is_open=True))
    return items


def _random_block(rng: random.Random, depth: int, *, starts: bool, is_open: bool) -> dict[str, Any]:
    paths = []
    for _ in range(rng.randint(1, 3)):
        inside = is_open and depth > 1 and rng.random() < 0.4
        full = inside or rng.random() < 0.9
        grown = random_items(rng, depth - 1, starts=starts, is_open=inside) if full else []
        paths.append(grown)
    return block(*paths, closed=not is_open)


# -- the cases ---------------------------------------------------------------------------------


def linear_cases() -> Iterator[tuple[str, Items]]:
    two = ([text(2)], [text(3)])
    for state, make in (("open", still_open), ("closed", block)):
        behind = [text(2)] if state == "closed" else []
        yield f"two paths, {state}", [text(2), make(*two), *behind]
        yield f"one path, {state}", [text(2), make([text(3)]), *behind]
        yield f"an empty path, {state}", [text(2), make([], [text(3)]), *behind]
        yield f"only empty paths, {state}", [text(2), make([], []), *behind]
        yield f"at the beginning, {state}", [make(*two), *behind]
        yield f"behind a closed block, {state}", [text(2), block(*two), make(*two), *behind]
        nested: Items = [text(1), block(*two), text(1)]
        yield f"around a closed block, {state}", [text(2), make([text(1)], nested), *behind]
    both = [text(1), still_open(*two)]
    yield "open in the last path of an open one", [text(2), still_open([text(2)], both)]
    yield "open in the first path of an open one", [text(2), still_open(both, [text(2)])]
    deep: Items = [text(1), still_open([text(1)], [text(1), still_open([text(2)], [text(1)])])]
    yield "open three deep", [text(1), still_open([text(2)], deep)]
    rng = random.Random(20261130)
    for n in range(15):
        yield f"random {n}", random_items(rng, 2, starts=False, is_open=n % 2 == 0)


def reserve_cases() -> Iterator[tuple[str, Items]]:
    scripts = {
        "promise kept exactly": "3 a10:10 4 sync 2",
        "promise too long: a gap": "3 a4:20 4 sync 2",
        "promise too short: an overlap": "3 a17:10 4 sync 2",
        "overlap beyond the main thread": "3 a24:10 2 sync 2",
        "before the sync": "3 a4:10 4",
        "promised and nothing written": "3 a0:10 4 sync 2",
        "promise rounded to nothing": "3 a2:4 4 sync 2",
        "nothing behind the promise": "3 a4:10 sync 2",
        "two promises": "3 a4:10 2 a5:20 3 sync 2",
        "two promises with nothing between": "3 a4:10 a5:20 3 sync 2",
        "two promises before their sync": "3 a4:10 2 a5:20 3",
        "a second sync": "3 a4:10 2 sync 1 a5:10 3 sync 2",
    }
    for name, script in scripts.items():
        yield name, thread(script, reserve=True)
    yield "a text further on", [text(3), text(2, 10), text(2)]
    yield "a text further back", [text(13), text(2, 10), text(2)]
    yield "a text at its own place", [text(3), text(2, 3), text(2)]
    yield "the beginning further on", [text(2, 20), text(1)]
    yield "a block behind a gap", [text(3), text(2, 20), block([text(2)], [text(3)]), text(1)]
    yield "all paths further on", [text(3), block([text(2, 10)], [text(3, 20)]), text(1)]
    yield "a path further back", [text(13), block([text(2, 0)], [text(1)]), text(1)]
    rng = random.Random(20261130)
    for n in range(6):
        yield f"random thread {n}", thread(random_script(rng), reserve=True)
    for n in range(9):
        yield f"random {n}", random_items(rng, 2, starts=True, is_open=n % 3 == 0)


def pasta_cases() -> Iterator[tuple[str, Items]]:
    scripts = {
        "no promise": "5",
        "one promise": "3 a4 2 sync 2",
        "a longer main thread": "3 a2 5 sync 2",
        "before the sync": "3 a4 2",
        "nothing behind the promise": "3 a4 sync 2",
        "an empty async": "3 a0 2 sync 2",
        "an empty async and nothing behind it": "3 a0 sync 2",
        "a promise first of all": "a3 2 sync 1",
        "two promises and one sync": "3 a4 2 a3 2 sync 2",
        "two promises with nothing between": "3 a4 a3 2 sync 2",
        "three promises and one sync": "2 a1 1 a5 1 a2 1 sync 1",
        "three promises before their sync": "2 a1 1 a5 1 a2 1",
        "two promises of the same length": "2 a3 a3 3 sync 1",
        "a second sync": "3 a4 2 sync 1 a2 3 sync 2",
        "promise right behind a sync": "3 a4 2 sync a2 3 sync 2",
        "a sync without promises": "3 sync 2",
        "the second group still open": "3 a4 2 a1 1 sync 1 a2 3 a2",
        "four promises": "1 a2 1 a3 1 a1 1 a4 1 sync 1",
    }
    for name, script in scripts.items():
        yield name, thread(script)
    rng = random.Random(20261130)
    for n in range(12):
        yield f"random {n}", thread(random_script(rng))


def vector(name: str, items: Items, rule: JoinRule) -> dict[str, Any]:
    """One case with all that the definitions say about it."""
    items = json.loads(json.dumps(items))  # parts of it may be one object
    tokens = number(items) - 1
    context = tree_of(items, rule=rule)
    defined = Definition(context)
    return {
        "name": name,
        "rule": rule.value,
        "context": items,
        "tokens": list(range(1, tokens + 1)),
        "positions": defined.positions,
        "next_position": defined.next_position,
        "visible": defined.visible,
        "total_tokens": tokens,
        "critical_path_tokens": Definition(context, history=True).critical,
    }


def vector_files() -> dict[str, str]:
    """File name -> content, a case per line."""
    sets = {
        "linear": (JoinRule.LINEAR, linear_cases()),
        "reserve": (JoinRule.RESERVE, reserve_cases()),
        "pasta": (JoinRule.STITCH, pasta_cases()),
    }
    files = {}
    for name, (rule, cases) in sets.items():
        rows = [json.dumps(vector(title, items, rule)) for title, items in cases]
        body = ",\n".join(rows)
        files[f"layout_{name}.json"] = (
            f'{{"rule": {json.dumps(RULES[name])}, "cases": [\n{body}\n]}}\n'
        )
    return files


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for file, content in vector_files().items():
        (folder / file).write_text(content, "utf-8")
