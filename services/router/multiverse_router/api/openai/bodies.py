"""What bodies of OpenAI's API may hold; extensions stand under `multiverse`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from multiverse_router.api.bodies import (
    Body,
    Decoding,
    Drawing,
    Message,
    NotNegative,
    ParallelOptions,
    Positive,
    UnicodeText,
)
from multiverse_router.api.openai.parameters import Ignored

DEFAULT_COMPLETION_TOKENS = 16  # OpenAI's
MOST_TOP_LOGPROBS = 20
Ids = Annotated[list[NotNegative], Field(min_length=1)]


def unsupported(message: str) -> PydanticCustomError:
    """The error of a value that is legal, but not honoured here."""
    return PydanticCustomError("unsupported_parameter", "{reason}", {"reason": message})


class ChatMessage(Message):
    """One turn, as clients send it back: with what an answer said of itself, empty or null."""

    name: JsonValue = Field(None, description="taken and ignored")
    reasoning_content: JsonValue = Field(None, description="taken and ignored")

    @model_validator(mode="before")
    @classmethod
    def _empty_is_left_out(cls, data: Any) -> Any:
        empty = ("refusal", "annotations", "audio", "tool_calls", "function_call")
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if value or key not in empty}
        return data


class StreamOptions(Body):
    include_usage: bool = False
    include_obfuscation: JsonValue = Field(None, description="taken and ignored")


class ResponseFormat(Body):
    type: Literal["text"]

    @model_validator(mode="before")
    @classmethod
    def _only_text(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("type") in ("json_schema", "json_object"):
            raise unsupported("answers can't be held to a format here; leave it out")
        return data


class OpenAIDecoding(Drawing, Ignored):
    """What chats and completions share."""

    temperature: float = Field(1.0, ge=0, le=2)
    top_p: float = Field(1.0, ge=0, le=1)
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 63, description="random if left out")
    n: int = Field(1, ge=1, le=128, description="answers, each a tree of its own")
    stream: bool = False
    stream_options: StreamOptions | None = None
    multiverse: ParallelOptions = ParallelOptions()

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, data: Any) -> Any:
        """OpenAI's API takes null for whatever is optional."""
        if isinstance(data, dict):
            return {
                k: v for k, v in data.items() if v is not None and not (k == "stop" and v == [])
            }
        return data

    @field_validator("top_p")
    @classmethod
    def _not_quite_zero(cls, top_p: float) -> float:
        return max(top_p, 1e-6)

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatBody(OpenAIDecoding, Decoding):
    """POST /v1/chat/completions"""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Positive | None = None
    response_format: ResponseFormat | None = None
    modalities: list[str] | None = None

    @field_validator("modalities")
    @classmethod
    def _text(cls, modalities: list[str] | None) -> list[str] | None:
        if modalities and modalities != ["text"]:
            raise unsupported("only text is written here")
        return modalities


class CompletionBody(OpenAIDecoding):
    """POST /v1/completions"""

    prompt: UnicodeText | Ids | list[UnicodeText] | list[Ids]
    max_tokens: Positive = DEFAULT_COMPLETION_TOKENS
    logprobs: int | None = Field(None, ge=0, le=MOST_TOP_LOGPROBS)
    echo: bool = Field(False, description="the prompt stands before the answer")
    best_of: int | None = Field(None, description="as many as `n`, or left out")

    @field_validator("prompt", mode="before")
    @classmethod
    def _one_kind(cls, prompt: Any) -> Any:
        """The many errors of a union say nothing."""
        items = prompt if isinstance(prompt, list) else [prompt]
        texts = all(isinstance(item, str) for item in items)
        ids = isinstance(prompt, list) and (_are_ids(prompt) or all(map(_are_ids, prompt)))
        if not items or not (texts or ids):
            raise ValueError("give a text, a list of token ids, or a list of either")
        return prompt

    @field_validator("best_of")
    @classmethod
    def _best_is_all(cls, best_of: int | None, info: ValidationInfo) -> int | None:
        if best_of not in (None, info.data.get("n")):
            raise unsupported("answers are not ranked here; leave it out")
        return best_of

    @property
    def prompts(self) -> list[str | list[int]]:
        """One or more."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return list(self.prompt)

    @property
    def tops(self) -> int | None:
        return self.logprobs


def _are_ids(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(
            isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value
        )
    )
