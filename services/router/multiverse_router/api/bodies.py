"""What request bodies may hold. Unknown keys are refused by name."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from multiverse_router.context_seal import ContextSeal
from multiverse_router.model import ServedModel
from multiverse_router.prompt import Turn
from multiverse_router.request import AnswerRequest, Parallel, SamplingOptions
from multiverse_router.settings import RouterSettings, Tags
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.limits import Limits
from multiverse_shared.tree import Context, JoinRule, Text

Positive = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no character") from None
    return text


UnicodeText = Annotated[str, AfterValidator(_encodable)]
StopList = Annotated[
    list[Annotated[UnicodeText, Field(min_length=1, max_length=1000)]],
    Field(min_length=1, max_length=4),
    BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
]
LogitBias = Annotated[dict[int, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=1024)]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Said(Body):
    """What a server gave with an answer, given back."""

    context: UnicodeText = Field(description="the signed tree; what `content` says is ignored")


def _joined(content: Any) -> Any:
    """The text of a list of parts. ValueError for one that is no text."""
    if not isinstance(content, list):
        return content
    for index, part in enumerate(content):
        if not isinstance(part, dict) or part.get("type") != "text":
            kind = part.get("type") if isinstance(part, dict) else part
            raise ValueError(f"part {index} is {kind!r:.60}; only parts of type text can be read")
        if not isinstance(part.get("text"), str) or part.keys() > {"type", "text"}:
            raise ValueError(f"part {index} must hold a type and a text, nothing else")
    return "".join(part["text"] for part in content)


_PART = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
}
Content = Annotated[
    UnicodeText,
    BeforeValidator(
        _joined, json_schema_input_type=str | list[Annotated[dict[str, str], WithJsonSchema(_PART)]]
    ),
]


class Message(Body):
    """One turn of a chat; its content is a text, or a list of texts that are joined."""

    role: Literal["system", "developer", "user", "assistant"]
    multiverse: Said | None = None
    content: Content | None = Field(None, validate_default=True)

    @field_validator("multiverse")
    @classmethod
    def _of_an_assistant(cls, said: Said | None, info: ValidationInfo) -> Said | None:
        if said and info.data.get("role") != "assistant":
            raise ValueError("only what an assistant said has a context")
        return said

    @field_validator("content")
    @classmethod
    def _something(cls, content: str | None, info: ValidationInfo) -> str | None:
        if content is None and info.data.get("role") != "assistant":
            raise ValueError("write something, if only an empty text")
        return content


class Drawing(Body):
    """What all APIs share: how much is decoded, and how tokens are drawn."""

    model: str | None = Field(None, description="name of the served model; any if left out")
    max_tokens: Positive | None = Field(None, description="of the answer, all paths together")
    temperature: float = Field(0.0, ge=0, le=10, description="0 is greedy")
    top_p: float = Field(1.0, ge=1e-6, le=1)
    top_k: int = Field(0, ge=0, lt=1 << 32, description="0: the whole vocabulary")
    min_p: float = Field(0.0, ge=0, le=1, description="share of the most probable token's; 0: off")
    presence_penalty: float = Field(0.0, ge=-2, le=2)
    frequency_penalty: float = Field(0.0, ge=-2, le=2)
    repetition_penalty: float = Field(1.0, ge=0.1, le=10, description="1: off")
    logit_bias: LogitBias | None = Field(None, description="by token id, -100 to 100")
    stop: StopList | None = Field(None, description="1 to 4 strings; matched in text of the root")
    seed: int | None = Field(None, ge=0, lt=1 << 63, description="random if left out")

    @property
    def tops(self) -> int | None:
        """How many of the most probable tokens are told of; None: no logprobs at all."""
        return None

    def sampling(self, model: ServedModel) -> SamplingOptions:
        """InvalidRequest for a bias on an id that the client can't choose."""
        bias = self.logit_bias or {}
        _check_biased(set(bias), model)
        return SamplingOptions(
            seed=secrets.randbits(63) if self.seed is None else self.seed % (1 << 63),
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            logit_bias=tuple(sorted(bias.items())),
            logprobs=self.tops is not None,
            top_logprobs=self.tops or 0,
        )


class Decoding(Drawing):
    """Logprobs as a switch and a number."""

    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=20, description="needs logprobs")

    @field_validator("top_logprobs")
    @classmethod
    def _needs_logprobs(cls, top: int, info: ValidationInfo) -> int:
        if top and not info.data.get("logprobs"):
            raise ValueError("needs logprobs: true")
        return top

    @property
    def tops(self) -> int | None:
        return self.top_logprobs if self.logprobs else None


def _check_biased(tokens: set[int], model: ServedModel) -> None:
    """A bias could force the tags that only model and system may write."""
    unknown = [token for token in tokens if not 0 <= token < model.vocab_size]
    if unknown:
        raise InvalidRequest(
            f"logit_bias: {unknown[0]} is no token id; ids are 0 to {model.vocab_size - 1}",
            field="logit_bias",
        )
    tags = {ids[0] for ids in model.grammar.tags.values() if len(ids) == 1}
    control = tokens & (tags | model.tokenizer.control_ids).difference(model.eos)
    if control:
        token = min(control)
        raise InvalidRequest(
            f"logit_bias: {token} is the control token {model.tokenizer.decode([token])!r}, "
            "which can't be biased; leave it out",
            field="logit_bias",
        )


class ParallelOptions(Body):
    """How the answer may fork."""

    parallel: Parallel = Parallel.AUTO
    tags: Tags | None = Field(None, description="structure in the text; the server's default")
    max_critical_tokens: Positive | None = Field(None, description="tokens on the longest chain")
    max_paths: Positive | None = Field(None, description="per block")
    max_depth: NotNegative | None = Field(None, description="blocks inside blocks")
    max_path_tokens: Positive | None = None
    max_goal_tokens: Positive | None = None
    max_blocks: NotNegative | None = None
    max_live_paths: Positive | None = Field(None, description="decoded at once; more queue")
    deadline_s: Annotated[float, Field(gt=0, le=86400)] | None = None
    token_ms: Annotated[float, Field(gt=0, le=60_000)] | None = Field(
        None, description="milliseconds a token, in the mean, that the answer aims at"
    )
    priority: NotNegative | None = Field(
        None, description="the higher goes first; not above that of the key"
    )
    return_context: bool = Field(False, description="the answer's signed tree, to give back")

    def keeps_tags(self, settings: RouterSettings) -> bool:
        return (self.tags or settings.tags) is Tags.KEEP

    def limits(self, settings: RouterSettings) -> dict[str, int]:
        """Those that are given. InvalidRequest for one above what the server allows."""
        given = {name: getattr(self, name) for name in _LIMITS if getattr(self, name) is not None}
        for name, value in given.items():
            most = getattr(settings, name.replace("max_", "most_"), value)
            if value > most:
                raise InvalidRequest(f"{name} is {value}, {most} is allowed here", field=name)
        return given


_LIMITS = (
    "max_critical_tokens",
    "max_paths",
    "max_live_paths",
    "max_depth",
    "max_path_tokens",
    "max_goal_tokens",
    "max_blocks",
)


class GenerateBody(Decoding, ParallelOptions):
    """POST /v1/generate"""

    prompt: UnicodeText | None = Field(None, description="one user message")
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    stream: bool = True

    @model_validator(mode="after")
    def _one_input(self) -> GenerateBody:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give prompt or messages, and only one of them")
        return self


def answer_request(
    request_id: str,
    body: Drawing,
    options: ParallelOptions,
    messages: Sequence[Message],
    max_tokens: int | None,
    model: ServedModel,
    settings: RouterSettings,
    seal: ContextSeal,
) -> AnswerRequest:
    """The checked request of a chat to `model`. InvalidRequest with the field's name."""
    prompt = chat_prompt(options, messages, model, seal)
    return prompted_request(request_id, body, options, prompt, max_tokens, model, settings)


def chat_prompt(
    options: ParallelOptions, messages: Sequence[Message], model: ServedModel, seal: ContextSeal
) -> Context:
    """What the model reads of a chat. InvalidRequest with the field's name."""
    turns = [_turn(message, index, model, seal) for index, message in enumerate(messages)]
    return model.prompts.write(turns, parallel=options.parallel is not Parallel.OFF)


def prompted_request(
    request_id: str,
    body: Drawing,
    options: ParallelOptions,
    prompt: Context,
    max_tokens: int | None,
    model: ServedModel,
    settings: RouterSettings,
) -> AnswerRequest:
    """The checked request of an answer to `prompt`. InvalidRequest with the field's name."""
    if not prompt or not isinstance(prompt[-1], Text):
        raise InvalidRequest(
            "the prompt has no tokens to go on from; write something", field="messages"
        )
    room = max(1, model.room(prompt))
    total = max_tokens or min(settings.default_max_tokens, room)
    if model.grammar.dialect.rule is JoinRule.LINEAR:  # a closed block stands one after another
        total = min(total, room)
    limits = {"max_total_tokens": total, **options.limits(settings)}
    limits["max_critical_tokens"] = min(limits.get("max_critical_tokens", total), room)
    return AnswerRequest(
        id=request_id,
        model=model.name,
        model_digest=model.digest,
        prompt=prompt,
        limits=Limits(**limits),
        parallel=options.parallel,
        sampling=body.sampling(model),
        stop=tuple(body.stop or ()),
        deadline_s=options.deadline_s,
        token_ms=options.token_ms,
        priority=options.priority,
        return_context=options.return_context,
    )


def _turn(message: Message, index: int, model: ServedModel, seal: ContextSeal) -> Turn:
    """InvalidRequest when the message's context is not one that was given for this model."""
    role = message.role
    if role == "developer" and not model.prompts.template.names(role):
        role = "system"
    if message.multiverse is None:
        return Turn(role, message.content or "")
    field = f"messages.{index}.multiverse.context"
    return Turn(role, "", seal.open(message.multiverse.context, model.layout, field))
