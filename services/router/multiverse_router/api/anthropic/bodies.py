"""What bodies of Anthropic's Messages API may hold; extensions stand under `multiverse`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, ValidationInfo, field_validator

from multiverse_router.api.bodies import (
    Body,
    Decoding,
    Message,
    ParallelOptions,
    Positive,
    Said,
    StopList,
    UnicodeText,
)

_UNUSED = Field(None, description="taken and ignored")
_NO_TOOLS = "tools can't be called here"
REFUSED = {
    "tools": _NO_TOOLS,
    "tool_choice": _NO_TOOLS,
    "mcp_servers": _NO_TOOLS,
    "container": _NO_TOOLS,
    "output_format": "answers can't be held to a format here",
    "output_config": "answers can't be held to a format here",
}


def _text_of(content: Any, *, thoughts: bool = False) -> Any:
    """The text of a list of blocks; `thoughts` of earlier answers are left out.

    ValueError for a block that is no text.
    """
    if not isinstance(content, list):
        return content
    texts: list[str] = []
    for index, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else block
        if thoughts and kind in ("thinking", "redacted_thinking"):
            continue
        if kind != "text" or not isinstance(block.get("text"), str):
            raise ValueError(f"block {index} is {kind!r:.60}; only text can be read here")
        texts.append(block["text"])
    return "".join(texts)


class Turn(Body):
    """One turn of a chat: a text, or a list of blocks whose texts are joined."""

    role: Literal["user", "assistant"]
    multiverse: Said | None = None
    content: UnicodeText

    @field_validator("content", mode="before")
    @classmethod
    def _joined(cls, content: Any, info: ValidationInfo) -> Any:
        return _text_of(content, thoughts=info.data.get("role") == "assistant")

    @property
    def message(self) -> Message:
        return Message(role=self.role, content=self.content, multiverse=self.multiverse)

    @field_validator("multiverse")
    @classmethod
    def _of_an_assistant(cls, said: Said | None, info: ValidationInfo) -> Said | None:
        if said and info.data.get("role") != "assistant":
            raise ValueError("only what an assistant said has a context")
        return said


class Extensions(ParallelOptions):
    """What their API has no place for."""

    seed: int | None = Field(None, ge=0, lt=1 << 63, description="random if left out")
    min_p: float = Field(0.0, ge=0, le=1)


def _given(value: Any) -> Any:
    return value or None


class Conversation(Body):
    """What is said, whatever is to be done with it."""

    model: str
    messages: Annotated[list[Turn], Field(min_length=1)]
    system: Annotated[UnicodeText | None, BeforeValidator(_text_of)] = None
    cache_control: JsonValue = _UNUSED
    speed: JsonValue = _UNUSED
    user_profile_id: JsonValue = _UNUSED
    workspace_id: JsonValue = _UNUSED
    thinking: JsonValue = Field(None, description="taken and ignored: the model's template decides")

    @field_validator("messages")
    @classmethod
    def _asks(cls, messages: list[Turn]) -> list[Turn]:
        if messages[-1].role == "assistant":
            raise ValueError("the last one must be of role user: answers can't be continued here")
        return messages

    @property
    def chat(self) -> list[Message]:
        """The turns, behind what the system says."""
        said = [] if self.system is None else [Message(role="system", content=self.system)]
        return said + [turn.message for turn in self.messages]


class CountBody(Conversation):
    """POST /v1/messages/count_tokens"""

    multiverse: ParallelOptions = ParallelOptions()


class MessagesBody(Conversation):
    """POST /v1/messages"""

    max_tokens: Positive
    stop_sequences: Annotated[StopList | None, BeforeValidator(_given)] = None
    temperature: float = Field(1.0, ge=0, le=1, description="0 is greedy")
    top_p: float = Field(1.0, ge=0, le=1)
    top_k: int = Field(0, ge=0, lt=1 << 32, description="0: the whole vocabulary")
    stream: bool = False
    multiverse: Extensions = Extensions()
    metadata: JsonValue = _UNUSED
    service_tier: JsonValue = _UNUSED
    inference_geo: JsonValue = _UNUSED
    diagnostics: JsonValue = _UNUSED

    @property
    def decoding(self) -> Decoding:
        """How tokens are drawn, as all APIs say it."""
        return Decoding(
            model=self.model,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=max(self.top_p, 1e-6),
            top_k=self.top_k,
            min_p=self.multiverse.min_p,
            stop=self.stop_sequences,
            seed=self.multiverse.seed,
        )
