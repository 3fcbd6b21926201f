"""An answer as Anthropic's clients read it: content blocks, whole or as a sequence of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from multiverse_router.api.anthropic.errors import error_body
from multiverse_router.api.openai.choices import Choice
from multiverse_router.events import AnswerEvent, ErrorEvent, FinishEvent, StartEvent, UsageEvent

Data = dict[str, Any]
_REASONS = {"stop": "end_turn"}  # all others are limits: `max_tokens`


class MessageStream:
    """Their events, from ours. Each text is of one block; blocks follow one another."""

    def __init__(self, message_id: str, model: str, choice: Choice) -> None:
        self._message = {"id": message_id, "type": "message", "role": "assistant", "model": model}
        self._choice = choice
        self._blocks = 0
        self._open: str | None = None  # the type of the block that grows

    def tell(self, event: AnswerEvent) -> Iterator[Data]:
        """What may be said now."""
        for part in self._choice.tell(event):
            if part.text:
                yield from self._say("thinking" if part.thought else "text", part.text)
        match event:
            case StartEvent():
                usage = {"input_tokens": event.prompt_tokens, "output_tokens": 0}
                start: Data = {
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": usage,
                }
                yield {"type": "message_start", "message": {**self._message, **start}}
                yield {"type": "ping"}
            case FinishEvent():
                assert self._choice.usage
                yield from self._close()
                yield {
                    "type": "message_delta",
                    "delta": _stop(event),
                    "usage": _usage(self._choice.usage),
                    "multiverse": self._choice.extension,
                }
                yield {"type": "message_stop"}
            case ErrorEvent():
                yield error_body(event.kind, event.message)

    def _say(self, kind: str, text: str) -> Iterator[Data]:
        if self._open != kind:
            yield from self._close()
            self._open = kind
            yield {
                "type": "content_block_start",
                "index": self._blocks,
                "content_block": _block(kind, ""),
            }
        delta = {"type": f"{kind}_delta", kind: text}
        yield {"type": "content_block_delta", "index": self._blocks, "delta": delta}

    def _close(self) -> Iterator[Data]:
        if self._open is None:
            return
        if self._open == "thinking":
            delta = {"type": "signature_delta", "signature": ""}
            yield {"type": "content_block_delta", "index": self._blocks, "delta": delta}
        yield {"type": "content_block_stop", "index": self._blocks}
        self._open = None
        self._blocks += 1


class WholeMessage:
    """The message that the events of a stream build up."""

    def __init__(self) -> None:
        self.body: Data = {}

    def add(self, data: Data) -> None:
        match data["type"]:
            case "message_start":
                self.body = data["message"]
            case "content_block_start":
                self.body["content"].append(data["content_block"])
            case "content_block_delta":
                block = self.body["content"][data["index"]]
                if block["type"] in data["delta"]:
                    block[block["type"]] += data["delta"][block["type"]]
            case "message_delta":
                self.body |= data["delta"]
                self.body["usage"] = data["usage"]
                self.body["multiverse"] = data["multiverse"]


def _block(kind: str, text: str) -> Data:
    block = {"type": kind, kind: text}
    return {**block, "signature": ""} if kind == "thinking" else block


def _stop(event: FinishEvent) -> Data:
    reason = "stop_sequence" if event.stop is not None else _REASONS.get(event.reason, "max_tokens")
    return {"stop_reason": reason, "stop_sequence": event.stop}


def _usage(usage: UsageEvent) -> Data:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }
