"""Random answers as trees, the events they give, and the legal orders of those events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from hypothesis import strategies as st

from multiverse_router.events import AnswerEvent, ForkEvent, JoinEvent, PathEndEvent, TextEvent


@dataclass(frozen=True, slots=True)
class Said:
    """One text of a path; `kind` as in events."""

    kind: str
    text: str


Part = Said | tuple["Answer", ...]
Answer = tuple[Part, ...]

_said = st.builds(Said, st.sampled_from(["text", "tag", "written"]), st.text("ab<é", max_size=3))


def _with_forks(inner: st.SearchStrategy[Answer]) -> st.SearchStrategy[Answer]:
    fork = st.lists(inner, min_size=1, max_size=4).map(tuple)
    return st.lists(_said | fork, max_size=4).map(tuple)


answers: st.SearchStrategy[Answer] = st.recursive(
    st.lists(_said, max_size=4).map(tuple), _with_forks, max_leaves=12
)


def flat(answer: Answer, *, tags: bool = True) -> str:
    """The text of the tree in its own order."""
    out = ""
    for part in answer:
        if isinstance(part, Said):
            out += part.text if tags or part.kind == "text" else ""
        else:
            out += "".join(flat(path, tags=tags) for path in part)
    return out


def interleaved(answer: Answer, rng: Random) -> Iterator[AnswerEvent]:
    """The events of `answer` in one of the orders in which paths may report."""
    running = [_Runner("0", answer, None)]
    while running:
        runner = rng.choice(running)
        event = runner.step()
        if event is None:
            running.remove(runner)
            continue
        yield event
        if isinstance(event, ForkEvent):
            running.remove(runner)
            running += runner.children
        if isinstance(event, PathEndEvent):
            running.remove(runner)
            parent = runner.parent
            assert parent is not None
            parent.open -= 1
            if not parent.open:
                yield JoinEvent(parent.id, len(parent.children), parent.names)
                running.append(parent)


class _Runner:
    """One path on its way through its parts."""

    def __init__(self, path_id: str, answer: Answer, parent: _Runner | None) -> None:
        self.id = path_id
        self.parent = parent
        self.children: list[_Runner] = []
        self.open = 0
        self._parts = list(answer)
        self._forked = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(child.id for child in self.children)

    def step(self) -> AnswerEvent | None:
        """The next event of this path; None when the root has no more."""
        if not self._parts:
            return PathEndEvent(self.id, "stop", False) if self.parent else None
        part = self._parts.pop(0)
        if isinstance(part, Said):
            return TextEvent(self.id, part.kind, part.text, ())
        self.children = []
        for path in part:
            self._forked += 1
            self.children.append(_Runner(f"{self.id}.{self._forked}", path, self))
        self.open = len(part)
        return ForkEvent(self.id, len(part), self.names, ("",) * len(part))
