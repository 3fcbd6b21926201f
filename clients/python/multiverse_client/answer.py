"""An answer as the tree that its events describe. Grows event by event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from multiverse_client.events import (
    Event,
    Finish,
    Fork,
    Join,
    PathEnd,
    Start,
    Text,
    Usage,
)
from multiverse_client.request import Message


@dataclass(slots=True)
class AnswerPath:
    """One path: what it said and where it forked, in order."""

    id: str
    outline: str = ""  # of the plan that it was started for; none for the root
    parts: list[Text | Fork] = field(default_factory=list)
    end: PathEnd | None = None
    waits: bool = False  # for the paths of its last fork

    @property
    def own_text(self) -> str:
        """Without that of the paths it forked into."""
        return "".join(part.delta for part in self.parts if isinstance(part, Text))

    @property
    def forks(self) -> list[Fork]:
        return [part for part in self.parts if isinstance(part, Fork)]


class Answer:
    """What is known of an answer so far; all of it once `finish` is there."""

    def __init__(self) -> None:
        self.start: Start | None = None
        self.paths: dict[str, AnswerPath] = {"0": AnswerPath("0")}
        self.usage: Usage | None = None
        self.finish: Finish | None = None

    @property
    def root(self) -> AnswerPath:
        return self.paths["0"]

    @property
    def complete(self) -> bool:
        return self.finish is not None

    @property
    def finish_reason(self) -> str | None:
        """`stop`, `length`, `deadline`; None while there is more to come."""
        return self.finish.reason if self.finish else None

    def add(self, event: Event) -> None:
        match event:
            case Start():
                self.start = event
            case Text():
                self.paths[event.path].parts.append(event)
            case Fork():
                path = self.paths[event.path]
                path.parts.append(event)
                path.waits = True
                for name, outline in zip(event.paths, event.outlines, strict=True):
                    self.paths[name] = AnswerPath(name, outline)
            case PathEnd():
                self.paths[event.path].end = event
            case Join():
                self.paths[event.path].waits = False
            case Usage():
                self.usage = event
            case Finish():
                self.finish = event

    def text(self, path: str = "0", *, tags: bool = True) -> str:
        """The text of a path and of all inside it, in the order of the tree.

        That of the root is the whole answer. With `tags` false, structure is left out.
        """
        structure = () if tags else ("tag", "written")
        return "".join(part.delta for part in self.texts(path) if part.kind not in structure)

    def texts(self, path: str = "0") -> Iterator[Text]:
        """The same as events."""
        for part in self.paths[path].parts:
            if isinstance(part, Text):
                yield part
            else:
                for child in part.paths:
                    yield from self.texts(child)

    def message(self) -> Message:
        """This answer as a turn of the next request; exact if it was asked for its context."""
        if self.finish and self.finish.context:
            return {"role": "assistant", "multiverse": {"context": self.finish.context}}
        return {"role": "assistant", "content": self.text()}
