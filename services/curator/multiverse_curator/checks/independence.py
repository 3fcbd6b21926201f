"""How much each path leans on its siblings, as a causal language model sees it.

For each block the same ids are scored twice: in the stitched layout, where siblings are hidden,
and in the linear one, where a path sees those before it. What a path gains in log-likelihood by
seeing them, per token, is written into the sample. Some gain is style (the second of two like
computations is easier to guess); a number that stands only in a sibling costs much more.

Needs the extra `independence`. Uses plain text without tags, so any causal model will do. The
layouts are those of `multiverse_shared`; a masked attention of S x S is built, so blocks of more
than `most_tokens` are passed over.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from multiverse_curator.sample import flat
from multiverse_curator.teachers.contract import missing
from multiverse_shared.encode import TextBlock, TextTree
from multiverse_shared.layout import positions, visibility
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Block, Context, JoinRule, Text

BEFORE_TOKENS = 256  # of what stands before a block


class LikelihoodIndependence:
    """`model` is a directory in Hugging Face form; see `scripts/smollm2.py`."""

    def __init__(self, model: Path, most_tokens: int = 4096) -> None:
        try:
            import torch
            from transformers import AutoModelForCausalLM
        except ImportError as error:
            raise missing("independence", error) from None
        self.name = model.resolve().name
        self._torch = torch
        self._tokenizer = TextTokenizer.from_directory(model)
        self._model = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        self._most_tokens = most_tokens

    def measure(self, prompt: str, tree: TextTree) -> list[dict[str, Any]]:
        """For each path of each block: its tokens, and nats per token in both layouts.

        `gain` = linear - stitched: what the path gains by its earlier siblings.
        """
        found: list[dict[str, Any]] = []
        for number, (block, before) in enumerate(_blocks(prompt, tree), 1):
            found.extend({"block": number, **path} for path in self._block(block, before))
        return found

    def _block(self, block: TextBlock, before: str) -> list[dict[str, Any]]:
        prefix = self._tokenizer.encode(before + "\n")[-BEFORE_TOKENS:]
        paths = [
            self._tokenizer.encode(f"\n{outline}\n{flat(path)}")
            for outline, path in zip(block.outlines, block.paths, strict=True)
        ]
        if len(prefix) + sum(map(len, paths)) > self._most_tokens:
            return []
        stitched, linear = (
            self._scores(_context(prefix, paths, rule))
            for rule in (JoinRule.STITCH, JoinRule.LINEAR)
        )
        measured, at = list[dict[str, Any]](), len(prefix)
        for number, path in enumerate(paths, 1):
            # The first token has another predecessor in each layout, and in serving a header.
            scored = slice(at + 1, at + len(path))
            tokens = max(1, len(path) - 1)
            hidden = sum(stitched[scored]) / tokens
            seen = sum(linear[scored]) / tokens
            measured.append(
                {
                    "path": number,
                    "tokens": tokens,
                    "stitched": round(hidden, 4),
                    "linear": round(seen, 4),
                    "gain": round(seen - hidden, 4),
                }
            )
            at += len(path)
        return measured

    def _scores(self, context: Context) -> list[float]:
        """Log-likelihood of each token given the one before it in linear order; 0 for the first."""
        torch = self._torch
        ids = [token for item in context for token in _ids(item)]
        allowed = torch.zeros(len(ids), len(ids), dtype=torch.bool)
        for segment in visibility(context):
            for begin, end in segment.visible:
                allowed[segment.start : segment.stop, begin:end] = True
            size = segment.stop - segment.start
            own = torch.ones(size, size, dtype=torch.bool).tril()
            allowed[segment.start : segment.stop, segment.start : segment.stop] = own
        with torch.inference_mode():
            logits = self._model(
                input_ids=torch.tensor([ids]),
                position_ids=torch.tensor([positions(context)]),
                attention_mask=allowed[None, None],
                use_cache=False,
            ).logits
            chosen = torch.tensor(ids[1:])[:, None]
            scores = logits[0, :-1].log_softmax(-1).gather(1, chosen)[:, 0]
        return [0.0, *scores.tolist()]


def _context(prefix: list[int], paths: list[list[int]], rule: JoinRule) -> Context:
    return (Text(tuple(prefix)), Block(tuple((Text(tuple(path)),) for path in paths), rule))


def _ids(item: Text | Block) -> list[int]:
    if isinstance(item, Text):
        return list(item.ids)
    return [token for path in item.paths for part in path for token in _ids(part)]


def _blocks(prompt: str, tree: TextTree) -> list[tuple[TextBlock, str]]:
    """Every block with the text before it that its paths see."""
    found: list[tuple[TextBlock, str]] = []

    def walk(nodes: TextTree, before: str) -> None:
        for node in nodes:
            if isinstance(node, str):
                before += node
                continue
            found.append((node, before))
            for path in node.paths:
                walk(path, before)
            before += flat((node,))

    walk(tree, prompt + "\n")
    return found
