"""Makes the simulator's recorded shapes from recorded outputs of the dialect multiverse-qwen.

    python scripts/recorded_shapes.py OUTPUTS.jsonl.gz >recorded_shapes.json

Sizes are in tokens, counted as four characters each. No text is kept.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from multiverse_cli.parse import OutputReader, read_outputs
from multiverse_shared.characters import CharacterTokenizer
from multiverse_shared.dialect import load_dialect
from multiverse_shared.tree import Block, Context

DIALECT = "multiverse-qwen"
CHARACTERS = 4  # per token
PROVENANCE = (
    "135 outputs of the published 32B model of arXiv 2506.09991 on competition mathematics, read "
    "back into trees: [tokens | block, ...] per path; tokens are characters / 4, tags left out"
)
_TAG = re.compile(r"</?[A-Z][a-z]+>")
_LABEL = re.compile(r"^\s*[\d.]+\s*:")


def tokens(text: str) -> int:
    return -(-len(_LABEL.sub("", _TAG.sub("", text)).strip()) // CHARACTERS)


def shape(context: Context, tokenizer: CharacterTokenizer) -> list[Any]:
    """One path. A text holds the end of the block before it and the plan of the one behind it."""
    parts: list[Any] = []
    outlines: list[int] = []
    for number, item in enumerate(context):
        if isinstance(item, Block):
            k = len(item.paths)
            paths = [shape(path, tokenizer) for path in item.paths]
            sizes = [*outlines, *[1] * k][:k]
            parts.append({"outlines": sizes, "paths": paths, "conclusion": 0})
            continue
        text = tokenizer.decode(item.ids)
        if parts and isinstance(parts[-1], dict):
            conclusion, text = _cut(text)
            parts[-1]["conclusion"] = tokens(conclusion)
        if any(isinstance(next_item, Block) for next_item in context[number + 1 : number + 2]):
            text, _, plan = text.rpartition("<Goal>")
            outlines = [
                tokens(one) for one in re.findall(r"<Outline>(.*?)</Outline>", plan, re.DOTALL)
            ]
        if tokens(text):
            parts.append(tokens(text))
    return parts or [1]


def _cut(text: str) -> tuple[str, str]:
    """A conclusion, and what follows its block."""
    head, close, rest = text.partition("</Conclusion>")
    return (head, rest) if close else ("", text)


def main() -> None:
    reader = OutputReader(DIALECT)
    tokenizer = CharacterTokenizer(load_dialect(DIALECT))
    rows = read_outputs(Path(sys.argv[1]))
    shapes = [shape(reader.read(row["output"]).context, tokenizer) for row in rows]
    lines = ",\n  ".join(json.dumps(one, separators=(",", ":")) for one in shapes)
    print(f'{{\n "what": {json.dumps(PROVENANCE)},\n "shapes": [\n  {lines}\n ]\n}}')


if __name__ == "__main__":
    main()
