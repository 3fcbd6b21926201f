"""Logits and loss under Multiverse Attention against brute force, F32, for every join rule.

All vectors of tests/data and random trees; the dense mask as well as FlexAttention's block mask
(eager). Also that a path's loss has no gradient in its siblings. One JSON line last.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention
from tqdm import tqdm
from transformers import AutoModelForCausalLM

from multiverse_shared.tree import Block, Context, JoinRule, Text, count, linearise
from multiverse_trainer.attention.example import Example, make_example
from multiverse_trainer.attention.interface import NAME, register
from multiverse_trainer.attention.masks import BLOCK, block_mask, dense_mask
from multiverse_trainer.attention.spans import runs_of, span_table
from multiverse_trainer.batches.collator import Collator
from multiverse_trainer.batches.loss import logits_of
from tests.bench.brute_force import BruteForce
from tests.conformance.oracle import ARCHITECTURES, VOCAB, random_model
from tests.conformance.trees import random_tree, tree_of_case, vector_cases, with_ids
from tests.data.make_vectors import number, random_script, thread

DATA = Path(__file__).parents[1] / "data"
MOST = 1e-4
Named = tuple[str, Context]


def vectors() -> Iterator[Named]:
    for path in sorted(DATA.glob("layout_*.json")):
        for case in vector_cases(path):
            yield f"{path.stem}: {case['name']}", tree_of_case(case)


def random_trees(rng: random.Random, number_of: int, tokens: int) -> Iterator[Named]:
    """Stitch with and without offsets, linear, and both kinds of PASTA."""
    for index in range(number_of):
        kind = index % 5
        if kind < 3:
            tree = random_tree(rng, rng.randint(8, tokens))
            rule = JoinRule.LINEAR if kind == 2 else JoinRule.STITCH
            offset = -1 if kind == 1 else 0
            yield f"random {index} {rule}{offset}", _ruled(tree, rule, offset)
        else:
            reserve = kind == 4
            items = thread(random_script(rng), reserve=reserve)
            number(items)
            case = {"context": items, "rule": "reserve" if reserve else "stitch"}
            yield f"random {index} pasta", tree_of_case(case)


def _ruled(context: Context, rule: JoinRule, offset: int) -> Context:
    return tuple(
        item
        if isinstance(item, Text)
        else Block(
            tuple(_ruled(path, rule, offset) for path in item.paths), rule, True, offset, offset
        )
        for item in context
    )


def compare(model: Any, oracle: Any, tree: Context, flex: bool) -> tuple[float, float]:
    """Largest difference of a logit, and of the mean loss."""
    brute = BruteForce(oracle)
    brute.run(tree)
    said = list(zip(brute.said, linearise(tree), strict=True))
    due = torch.stack([logits for logits, _ in said if logits is not None])
    labels = torch.tensor([label for logits, label in said if logits is not None])
    example = make_example(tree, prompt_items=0)
    batch = Collator(0, BLOCK if flex else 8)([[example]])
    assert batch["labels"].tolist() == labels.tolist(), "the learned tokens in linear order"
    mask = block_mask(batch["first"], batch["last"]) if flex else None
    with torch.no_grad():
        got = logits_of(model, batch, mask)
    loss = functional.cross_entropy(got, labels) - functional.cross_entropy(due, labels)
    return float((got - due).abs().max()), abs(float(loss))


def sibling_gradient(model: Any, tree: Context) -> float | None:
    """Largest gradient of one path's loss in the embeddings of what it does not see.

    FlexAttention has no backward pass on CPUs.
    """
    example = make_example(tree, prompt_items=0)
    batch = Collator(0, 8)([[example]])
    hidden = ~dense_mask(batch["first"], batch["last"])[0, 0]
    source = _with_a_sibling(example, hidden)
    if source is None:
        return None
    chosen = batch["sources"] == source
    batch = {**batch, **{key: batch[key][chosen] for key in ("labels", "rows", "sources")}}
    embedded = model.get_input_embeddings()(batch["input_ids"]).detach().requires_grad_()
    logits = logits_of(model, batch, inputs_embeds=embedded)
    functional.cross_entropy(logits, batch["labels"], reduction="sum").backward()
    assert embedded.grad is not None
    gradient = embedded.grad[0].abs().amax(-1)
    assert float(gradient[source]) > 0
    return float(gradient[hidden[source]].max())


def _with_a_sibling(example: Example, hidden: Tensor) -> int | None:
    """A token that predicts something and does not see an earlier one."""
    for source in reversed(example.sources.tolist()):
        if bool(hidden[source, :source].any()):
            return int(source)
    return None


def check(arch: str, trees: list[Named]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        made = random_model(Path(folder), arch)
        options: dict[str, Any] = {"dtype": torch.float32}
        model = AutoModelForCausalLM.from_pretrained(made, attn_implementation=NAME, **options)
        oracle = AutoModelForCausalLM.from_pretrained(
            made, attn_implementation="eager", **options
        ).eval()
    model.requires_grad_(False)
    worst = {"logits": 0.0, "loss": 0.0, "flex": 0.0, "gradient": 0.0, "gradients": 0.0}
    for name, tree in tqdm(trees, desc=arch, file=sys.stderr, mininterval=10):
        if count(tree) < 2:
            continue
        # Block masks do not depend on the model; unfused FlexAttention is slow.
        for flex in (False, True) if arch == "llama" else (False,):
            logits, loss = compare(model, oracle, tree, flex)
            worst["flex" if flex else "logits"] = max(worst["flex" if flex else "logits"], logits)
            worst["loss"] = max(worst["loss"], loss)
            if max(logits, loss) > MOST:
                print(f"{arch} {name}: {logits} {loss} flex={flex}", file=sys.stderr)
        gradient = sibling_gradient(model, tree)
        if gradient is not None:
            worst["gradient"] = max(worst["gradient"], gradient)
            worst["gradients"] += 1
    return worst


@torch.no_grad()
def fused(rng: random.Random, rows: int, size: int = 768) -> float:
    """FlexAttention compiled for the CPU, which reads the block grid, against the dense mask.

    Largest difference of an output; forward only, as that is all there is on CPUs.
    """
    attend = torch.compile(flex_attention, dynamic=False)
    worst = 0.0
    for _ in range(rows):
        tree = random_tree(rng, size * 3 // 4)
        while count(tree) > size:
            tree = random_tree(rng, size * 3 // 4)
        first, last = map(
            torch.from_numpy, span_table([runs_of(make_example(tree).segments)], size)
        )
        query, key, value = (torch.randn(1, heads, size, 16) for heads in (4, 2, 2))
        got = attend(query, key, value, block_mask=block_mask(first, last), enable_gqa=True)
        due = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=dense_mask(first, last), enable_gqa=True
        )
        worst = max(worst, float((got - due).abs().max()))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", nargs="+", default=list(ARCHITECTURES))
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=200, help="of a random tree, at most")
    parser.add_argument("--fused", type=int, default=5, help="rows for the compiled kernel")
    parser.add_argument("--seed", type=int, default=20261129)
    options = parser.parse_args()
    register()
    begun = time.monotonic()
    rng = random.Random(options.seed)
    trees = [*vectors(), *random_trees(rng, options.trees, options.tokens)]
    trees = [
        (name, with_ids(tree, [rng.randrange(VOCAB) for _ in range(count(tree))]))
        for name, tree in trees
    ]
    found = {arch: check(arch, trees) for arch in options.arch}
    compiled = fused(rng, options.fused)
    most = max(compiled, *(w[key] for w in found.values() for key in ("logits", "flex", "loss")))
    gradient = max(worst["gradient"] for worst in found.values())
    result = {
        "max_diff": most,
        "sibling_gradient": gradient,
        "sibling_gradients": int(sum(worst["gradients"] for worst in found.values())),
        "trees": len(trees),
        "per_arch": found,
        "fused": compiled,
        "seconds": round(time.monotonic() - begun, 1),
    }
    print(json.dumps(result))
    sys.exit(most > MOST or gradient != 0.0)


if __name__ == "__main__":
    main()
