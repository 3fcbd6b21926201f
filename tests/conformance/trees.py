"""Context trees to check with: the vector files, and random ones."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from multiverse_shared.tree import Block, Context, Item, JoinRule, Text


def vector_cases(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text("utf-8"))["cases"])


def tree_of(
    case: list[dict[str, Any]],
    path_offset: int = 0,
    join_offset: int = 0,
    rule: JoinRule = JoinRule.STITCH,
) -> Context:
    """The context tree of a vector's `context`."""
    items: list[Item] = []
    for item in case:
        if "text" in item:
            items.append(Text(tuple(item["text"]), start=item.get("start")))
        else:
            paths = tuple(tree_of(path, path_offset, join_offset, rule) for path in item["paths"])
            closed = item.get("closed", True)
            items.append(Block(paths, rule, closed, path_offset, join_offset))
    return tuple(items)


def tree_of_case(case: dict[str, Any]) -> Context:
    """The context tree of a vector, under the rule and with the offsets that it names."""
    rule = JoinRule(case.get("rule", JoinRule.STITCH))
    return tree_of(case["context"], case.get("path_offset", 0), case.get("join_offset", 0), rule)


def with_ids(context: Context, ids: list[int]) -> Context:
    """The same shape with other token ids, taken in linear order."""
    source = iter(ids)

    def walk(items: Context) -> Context:
        return tuple(
            replace(item, ids=tuple(next(source) for _ in item.ids))
            if isinstance(item, Text)
            else replace(item, paths=tuple(walk(path) for path in item.paths))
            for item in items
        )

    return walk(context)


def random_tree(rng: random.Random, tokens: int, most_blocks: int = 12) -> Context:
    """A tree of about `tokens` tokens in at most `most_blocks` blocks; begins with text; ids are 0.

    Adjacent and nested blocks, empty paths and paths of one token all occur.
    """
    blocks_left = rng.randint(1, most_blocks)

    def grow(budget: int, depth: int) -> Context:
        nonlocal blocks_left
        items: list[Item] = []
        while budget > 0:
            if depth < 3 and blocks_left and budget > 8 and rng.random() < 0.6:
                blocks_left -= 1
                size = min(budget, rng.randint(4, max(4, budget)))
                count = rng.randint(1, 5)
                shares = [rng.randint(0, 2 * size // count) for _ in range(count)]
                items.append(Block(tuple(grow(share, depth + 1) for share in shares)))
                budget -= sum(shares)
            size = min(budget, rng.randint(1, max(1, budget // 2)))
            if size > 0 and rng.random() < 0.9:
                items.append(Text((0,) * size))
                budget -= size
        return tuple(items)

    return (Text((0,) * rng.randint(1, max(1, tokens // 4))), *grow(tokens * 3 // 4, 0))
