"""All usable samples of a data set, in both renderings, cut to the longest that a row may be.

Rows that can't be used are listed, never met in the middle of a training.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from multiverse_shared.errors import InvalidRequest, MultiverseError
from multiverse_shared.tree import Item, Text, count
from multiverse_trainer.attention.ablation import Layout
from multiverse_trainer.attention.example import Example, make_example
from multiverse_trainer.attention.linear import unfold
from multiverse_trainer.data.files import Reject
from multiverse_trainer.data.record import Record
from multiverse_trainer.data.rendering import Rendered, Renderer, Rendering


@dataclass(slots=True)
class SampleSet:
    """Records with the lengths of their renderings; examples are made when asked for."""

    renderer: Renderer
    rendering: Rendering  # of what is parallel: `parallel`, or `twin`
    max_tokens: int
    layout: Layout = Layout.SERVED
    records: list[Record] = field(default_factory=list)
    lengths: list[tuple[int, int]] = field(default_factory=list)  # sequential, parallel
    cut: int = 0  # renderings that were cut
    rejects: list[Reject] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.records)

    def read(self, rows: Iterable[Record | Reject]) -> None:
        """Take what can be trained on. InvalidRequest when nothing can."""
        for row in rows:
            if isinstance(row, Reject):
                self.rejects.append(row)
                continue
            try:
                both = [self._make(row, parallel=parallel) for parallel in (False, True)]
            except (MultiverseError, RecursionError) as error:
                reason = error.message if isinstance(error, MultiverseError) else "nested too deep"
                self.rejects.append(Reject("", 0, row.id, reason))
            else:
                self.records.append(row)
                self.lengths.append((len(both[0][0]), len(both[1][0])))
                self.cut += sum(shorter for _, shorter in both)
        if not self.records:
            first = self.rejects[0] if self.rejects else None
            why = f"; the first of {len(self.rejects)} rejects: {first.reason}" if first else ""
            raise InvalidRequest(f"the data has no usable record{why}", field="data")

    def example(self, index: int, *, parallel: bool) -> Example:
        return self._make(self.records[index], parallel=parallel)[0]

    def _make(self, record: Record, *, parallel: bool) -> tuple[Example, bool]:
        rendering = self.rendering if parallel else Rendering.SEQUENTIAL
        return fit(self.renderer.render(record, rendering), self.max_tokens, self.layout)

    def write_rejects(self, path: Path) -> None:
        """One JSON line per reject: file, row, id, reason."""
        lines = [json.dumps(asdict(reject), ensure_ascii=False) for reject in self.rejects]
        path.write_text("".join(line + "\n" for line in lines), "utf-8")


def fit(rendered: Rendered, most: int, layout: Layout = Layout.SERVED) -> tuple[Example, bool]:
    """An example of at most `most` tokens, and whether something was cut off its end.

    A block is kept with its plan and its conclusion, or left out with all that follows.
    InvalidRequest when no token that bears loss is left.
    """
    items: list[Item] = [rendered.prompt]
    left = most - len(rendered.prompt.ids)
    for piece in (*rendered.pieces, (rendered.close,)):
        size = count(unfold(piece))
        if size > left:
            text = piece[0] if len(piece) == 1 else None
            if isinstance(text, Text) and left > 0:
                items.append(Text(text.ids[:left], text.written, text.start))
            break
        items.extend(piece)
        left -= size
    else:
        return make_example(tuple(items), layout=layout), False
    if left < 0 or len(items) == 1:
        raise InvalidRequest(f"longer than {most} tokens before anything could be cut off")
    return make_example(tuple(items), layout=layout), True
