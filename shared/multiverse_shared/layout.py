"""Where every token of a context tree stands, and what it may attend to.

The only place in the project that computes positions and visibility: trainer, engines and
checks all call it.

- "stitch" (arXiv 2506.09991, section 4): every path of a block starts at the position after the
  token before the block; the token after the block stands one after the largest position
  reached inside it; a token sees every earlier token of the linear order except those of a
  sibling path, at any level.
- "reserve" (arXiv 2502.11517): the same, but a text may say itself where it starts.
- "linear": while the block is open as stitch; once it is closed, an ordinary text.
"""

from __future__ import annotations

from dataclasses import dataclass

from multiverse_shared.tree import Block, Context, JoinRule, Text

Span = tuple[int, int]  # half-open interval of linear indices


def positions(context: Context, start: int = 0) -> list[int]:
    """Position id of each token in linear order, when the first one stands at `start`."""
    out: list[int] = []
    _place(context, start, out)
    return out


def next_position(context: Context, start: int = 0) -> int:
    """Where the token after the context would stand. Walks items, not tokens."""
    return _extent(context, start)[0]


def block_end(block: Block, at: int) -> int:
    """Position of the token after a block, when the block opens at position `at`."""
    return _block_extent(block, at)[0]


def _extent(context: Context, at: int) -> tuple[int, int | None]:
    """Where the next token stands, and one after the largest position that a token has."""
    top: int | None = None
    for item in context:
        if isinstance(item, Text):
            at = _start(item, at) + len(item.ids)
            reached = at if item.ids else None
        else:
            at, reached = _block_extent(item, at)
        if reached is not None:
            top = reached if top is None else max(top, reached)
    return at, top


def _start(text: Text, at: int) -> int:
    """Position of the first token of a text, when `at` is the next one; none, none moved."""
    return at if text.start is None or not text.ids else text.start


def _is_plain(block: Block) -> bool:
    """Whether the block is laid out as if its paths were one text."""
    return block.rule is JoinRule.LINEAR and block.closed


def _block_extent(block: Block, at: int) -> tuple[int, int | None]:
    if _is_plain(block):
        return _extent(tuple(item for path in block.paths for item in path), at)
    tops = [_extent(path, at + block.path_offset)[1] for path in block.paths]
    top = max((reached for reached in tops if reached is not None), default=None)
    return (at if top is None else top) + block.join_offset, top


def _place(context: Context, at: int, out: list[int]) -> int:
    for item in context:
        if isinstance(item, Text):
            at = _start(item, at)
            out.extend(range(at, at + len(item.ids)))
            at += len(item.ids)
        elif _is_plain(item):
            for path in item.paths:
                at = _place(path, at, out)
        else:
            for path in item.paths:
                _place(path, at + item.path_offset, out)
            at = block_end(item, at)
    return at


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring tokens that see the same past.

    Tokens [start, stop) see all of `visible` (disjoint ascending spans, all before `start`)
    and, causally, each other.
    """

    start: int
    stop: int
    visible: tuple[Span, ...]


def visibility(context: Context) -> list[Segment]:
    """The attention mask as segments: O(items x depth), never S x S."""
    segments: list[Segment] = []
    _see(context, 0, (), segments)
    return segments


def _see(context: Context, at: int, past: tuple[Span, ...], out: list[Segment]) -> int:
    """Lay `context` out from linear index `at`, seeing `past`; returns the index after it."""
    for item in context:
        before = at
        if isinstance(item, Text):
            at += len(item.ids)
            if at > before:
                out.append(Segment(before, at, past))
        else:
            inside = past
            for path in item.paths:
                begun, at = at, _see(path, at, inside, out)
                if _is_plain(item):
                    inside = _extend(inside, (begun, at))
        past = _extend(past, (before, at))
    return at


def _extend(spans: tuple[Span, ...], new: Span) -> tuple[Span, ...]:
    if new[0] == new[1]:
        return spans
    if spans and spans[-1][1] == new[0]:
        return (*spans[:-1], (spans[-1][0], new[1]))
    return (*spans, new)
