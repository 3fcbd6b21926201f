"""What a model says when a tree is computed as it is served: one branch after another.

Each path is run alone from the KV of what stands before its block; the rest goes on over the
concatenated KV, with explicit positions. Written from the definitions of the join rules, without
the product's layout; slow on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from multiverse_shared.tree import Block, Context, JoinRule, Text, texts

Layers = list[tuple[Tensor, Tensor]]  # keys and values, [1, heads, tokens, width]


@dataclass(frozen=True)
class State:
    """The KV that is seen, where the next token stands, and what is said about it."""

    layers: Layers
    at: int = 0
    said: Tensor | None = None

    @property
    def size(self) -> int:
        return self.layers[0][0].shape[2] if self.layers else 0


@dataclass
class BruteForce:
    """Runs one tree. `said[i]`: logits [vocab] about token i of the linear order, if any."""

    model: Any
    said: list[Tensor | None] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)

    @torch.no_grad()
    def run(self, context: Context) -> None:
        self._walk(context, State([]))

    def _walk(self, context: Context, state: State) -> tuple[State, int | None]:
        """The state after the context, and one after the largest position in it."""
        top: int | None = None
        for item in context:
            if isinstance(item, Text):
                if not item.ids:
                    continue
                start = state.at if item.start is None else item.start
                state, said = self._feed(item.ids, start, state)
                self.said.extend(said)
                self.positions.extend(range(start, state.at))
                reached: int | None = state.at
            elif item.rule is JoinRule.LINEAR:
                state, reached = self._linear(item, state)
            else:
                state, reached = self._stitch(item, state)
            if reached is not None:
                top = reached if top is None else max(top, reached)
        return state, top

    def _stitch(self, block: Block, state: State) -> tuple[State, int | None]:
        ends, tops = self._paths(block, state)
        top = max(tops, default=None)
        layers = [
            (
                torch.cat([keys, *(end.layers[n][0][:, :, state.size :] for end in ends)], 2),
                torch.cat([values, *(end.layers[n][1][:, :, state.size :] for end in ends)], 2),
            )
            for n, (keys, values) in enumerate(state.layers or _empty(ends))
        ]
        said = next((end.said for end in reversed(ends) if end.size > state.size), state.said)
        at = (state.at if top is None else top) + block.join_offset
        return State(layers, at, said), top

    def _linear(self, block: Block, state: State) -> tuple[State, int | None]:
        """Each path alone; then, if the block is closed, its plain text."""
        _, tops = self._paths(block, state)
        if not block.closed:
            return state, max(tops, default=None)
        plain = [text for path in block.paths for text in texts(path) if text.ids]
        for text in plain:
            state, _ = self._feed(text.ids, state.at, state)
        return state, state.at if plain else None

    def _paths(self, block: Block, state: State) -> tuple[list[State], list[int]]:
        ends: list[State] = []
        tops: list[int] = []
        for path in block.paths:
            start = State(state.layers, state.at + block.path_offset, state.said)
            end, top = self._walk(path, start)
            ends.append(end)
            tops.extend([] if top is None else [top])
        return ends, tops

    def _feed(self, ids: tuple[int, ...], at: int, state: State) -> tuple[State, list[Any]]:
        """Run tokens that see the state and, causally, each other."""
        size, old = len(ids), state.size
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(state.layers):
            cache.update(keys, values, layer)
        mask = torch.zeros(size, old + size)
        mask[:, old:].masked_fill_(torch.ones(size, size).triu(1).bool(), -1e30)
        output = self.model(
            input_ids=torch.tensor([ids]),
            position_ids=torch.arange(at, at + size)[None],
            attention_mask=mask[None, None],
            past_key_values=cache,
            use_cache=True,
        )
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        logits = output.logits[0]
        return State(layers, at + size, logits[-1]), [state.said, *logits[:-1]]


def _empty(ends: list[State]) -> Layers:
    """No KV, in the shapes of a path that has some."""
    filled = next((end for end in ends if end.layers), None)
    if filled is None:
        return []
    return [(keys[:, :, :0], values[:, :, :0]) for keys, values in filled.layers]
