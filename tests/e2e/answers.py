"""Asking a router in each of its ways, and the tree that its events describe."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

FLAT = "sum a:7+5-3+2,b:4+9-2+5,c:8-3+6+1,?"
NESTED = "sum A max(a:7+5-3,b:4+9-2,) B min(c:8-3+6,d:3+3+3,)?"
LISTING = "list by 3 a:12,b:43,?"
PROMPTS = [FLAT, NESTED]

Event = dict[str, Any]
Ask = Callable[..., list[Event]]
AskWhole = Callable[..., dict[str, Any]]


def stream(client: httpx.Client, prompt: str, **options: Any) -> Iterator[Event]:
    """Events as they come; closing the iterator closes the connection."""
    body = {"prompt": prompt, **options}
    with client.stream("POST", "/v1/generate", json=body) as response:
        assert response.status_code == 200, response.read()
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                assert event["type"] == name
                yield event


def events_of(client: httpx.Client, prompt: str, **options: Any) -> list[Event]:
    return list(stream(client, prompt, **options))


def whole(client: httpx.Client, prompt: str, **options: Any) -> dict[str, Any]:
    """The answer as one JSON object."""
    response = client.post("/v1/generate", json={"prompt": prompt, "stream": False, **options})
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def chat_body(prompt: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}], "temperature": 0, **fields}


def chat(client: httpx.Client, prompt: str, **fields: Any) -> dict[str, Any]:
    """A whole completion of the OpenAI-compatible API."""
    response = client.post("/v1/chat/completions", json=chat_body(prompt, **fields))
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def chat_chunks(client: httpx.Client, prompt: str, **fields: Any) -> list[Any]:
    """The chunks of a streamed completion; the last one is the text `[DONE]`."""
    body = chat_body(prompt, stream=True, **fields)
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        assert response.status_code == 200, response.read()
        data = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    return [piece if piece == "[DONE]" else json.loads(piece) for piece in data]


def content(chunks: list[Any]) -> str:
    """The concatenated deltas."""
    choices = [choice for chunk in chunks if chunk != "[DONE]" for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices)


@dataclass
class PathRecord:
    """One path: its texts, and its forks (lists of path ids), in order."""

    parts: list[Event | list[str]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)  # paths of a fork that was not joined
    forked: int = 0
    end: Event | None = None


class Tree:
    """What the events of an answer describe. AssertionError when they make no sense."""

    def __init__(self, events: list[Event]) -> None:
        self.paths = {"0": PathRecord()}
        for event in events:
            getattr(self, f"_{event['type']}", lambda _: None)(event)

    def _text(self, event: Event) -> None:
        path = self.paths[event["path"]]
        assert not path.open, "a path is silent while its paths run"
        assert path.end is None, "a path is silent after its end"
        path.parts.append(event)

    def _fork(self, event: Event) -> None:
        path = self.paths[event["path"]]
        assert event["k"] == len(event["paths"]) == len(event["outlines"]) >= 1
        first = path.forked + 1
        path.forked += event["k"]
        numbers = range(first, path.forked + 1)
        assert event["paths"] == [f"{event['path']}.{number}" for number in numbers]
        path.open = list(event["paths"])
        path.parts.append(path.open)
        self.paths |= {child: PathRecord() for child in path.open}

    def _path_end(self, event: Event) -> None:
        path = self.paths[event["path"]]
        assert path.end is None
        assert not path.open
        path.end = event

    def _join(self, event: Event) -> None:
        path = self.paths[event["path"]]
        assert event["paths"] == path.open
        assert all(self.paths[child].end for child in path.open)
        path.open = []

    def texts(self, path: str = "0", kinds: tuple[str, ...] = ()) -> Iterator[Event]:
        """Text events in the order of the tree, of some kinds or all."""
        for part in self.paths[path].parts:
            if isinstance(part, list):
                for child in part:
                    yield from self.texts(child, kinds)
            elif not kinds or part["kind"] in kinds:
                yield part

    def text(self, *kinds: str) -> str:
        return "".join(event["delta"] for event in self.texts("0", kinds))

    def tokens(self, *kinds: str) -> int:
        return sum(len(event["token_ids"]) for event in self.texts("0", kinds))

    def longest_chain(self, path: str = "0") -> int:
        """Tokens that had to come one after another."""
        total = 0
        for part in self.paths[path].parts:
            if isinstance(part, list):
                total += max(self.longest_chain(child) for child in part)
            else:
                total += len(part["token_ids"])
        return total

    def ids(self) -> dict[str, list[int]]:
        """Token ids of each path."""
        return {
            name: [i for part in path.parts if isinstance(part, dict) for i in part["token_ids"]]
            for name, path in self.paths.items()
        }

    def forks(self) -> dict[str, list[int]]:
        """How many paths each fork of each path has."""
        return {
            name: [len(part) for part in path.parts if isinstance(part, list)]
            for name, path in self.paths.items()
        }
