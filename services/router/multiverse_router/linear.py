"""Events of a tree as one flat text, in the order of the tree, as early as possible.

Path 1 of a block is said live; the others as soon as those before them are done. What is
said, concatenated, is the text of the whole answer in linear order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from multiverse_router.events import AnswerEvent, ForkEvent, PathEndEvent, TextEvent


@dataclass(slots=True)
class _Path:
    """What a path has to say that was not said yet; `next` paths come before more of it."""

    parts: list[TextEvent | list[str]] = field(default_factory=list)  # texts, ids of a fork
    ended: bool = False


class Linear:
    """Orders the texts of an answer. With `tags` false, structure is left out."""

    def __init__(self, *, tags: bool = True) -> None:
        self._tags = tags
        self._paths: dict[str, _Path] = {"0": _Path()}

    def add(self, event: AnswerEvent) -> str:
        """The text that may be said now."""
        return "".join(told.delta for told in self.ready(event))

    def ready(self, event: AnswerEvent) -> list[TextEvent]:
        """The same as events."""
        match event:
            case TextEvent() if self._tags or event.kind not in ("tag", "written"):
                self._paths[event.path].parts.append(event)
            case ForkEvent():
                self._paths[event.path].parts.append(list(event.paths))
                for path in event.paths:
                    self._paths[path] = _Path()
            case PathEndEvent():
                self._paths[event.path].ended = True
        return list(self._ready("0"))

    def _ready(self, path_id: str) -> Iterator[TextEvent]:
        """What can be said of a path and those inside it; it is taken out."""
        path = self._paths[path_id]
        while path.parts:
            part = path.parts[0]
            if isinstance(part, TextEvent):
                path.parts.pop(0)
                yield part
                continue
            while part:
                yield from self._ready(part[0])
                if not self._done(part[0]):
                    return
                del self._paths[part.pop(0)]
            path.parts.pop(0)

    def _done(self, path_id: str) -> bool:
        path = self._paths[path_id]
        return path.ended and not path.parts
