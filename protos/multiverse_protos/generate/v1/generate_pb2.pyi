from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Parallel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARALLEL_UNSPECIFIED: _ClassVar[Parallel]
    PARALLEL_AUTO: _ClassVar[Parallel]
    PARALLEL_SERIAL: _ClassVar[Parallel]
    PARALLEL_OFF: _ClassVar[Parallel]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_SYSTEM: _ClassVar[Role]
    ROLE_USER: _ClassVar[Role]
    ROLE_ASSISTANT: _ClassVar[Role]
    ROLE_DEVELOPER: _ClassVar[Role]
PARALLEL_UNSPECIFIED: Parallel
PARALLEL_AUTO: Parallel
PARALLEL_SERIAL: Parallel
PARALLEL_OFF: Parallel
ROLE_UNSPECIFIED: Role
ROLE_SYSTEM: Role
ROLE_USER: Role
ROLE_ASSISTANT: Role
ROLE_DEVELOPER: Role

class GenerateRequest(_message.Message):
    __slots__ = ("model", "prompt", "messages", "parallel", "max_tokens", "max_critical_tokens", "max_paths", "max_live_paths", "max_depth", "max_path_tokens", "max_goal_tokens", "max_blocks", "deadline_s", "return_context", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs", "stop", "seed", "token_ms", "priority")
    class LogitBiasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_CRITICAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_PATHS_FIELD_NUMBER: _ClassVar[int]
    MAX_LIVE_PATHS_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPTH_FIELD_NUMBER: _ClassVar[int]
    MAX_PATH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_GOAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    RETURN_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_MS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    model: str
    prompt: str
    messages: _containers.RepeatedCompositeFieldContainer[Message]
    parallel: Parallel
    max_tokens: int
    max_critical_tokens: int
    max_paths: int
    max_live_paths: int
    max_depth: int
    max_path_tokens: int
    max_goal_tokens: int
    max_blocks: int
    deadline_s: float
    return_context: bool
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    logit_bias: _containers.ScalarMap[int, float]
    logprobs: bool
    top_logprobs: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    seed: int
    token_ms: float
    priority: int
    def __init__(self, model: _Optional[str] = ..., prompt: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[Message, _Mapping]]] = ..., parallel: _Optional[_Union[Parallel, str]] = ..., max_tokens: _Optional[int] = ..., max_critical_tokens: _Optional[int] = ..., max_paths: _Optional[int] = ..., max_live_paths: _Optional[int] = ..., max_depth: _Optional[int] = ..., max_path_tokens: _Optional[int] = ..., max_goal_tokens: _Optional[int] = ..., max_blocks: _Optional[int] = ..., deadline_s: _Optional[float] = ..., return_context: bool = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., logit_bias: _Optional[_Mapping[int, float]] = ..., logprobs: bool = ..., top_logprobs: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., seed: _Optional[int] = ..., token_ms: _Optional[float] = ..., priority: _Optional[int] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("role", "content", "multiverse")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    MULTIVERSE_FIELD_NUMBER: _ClassVar[int]
    role: Role
    content: str
    multiverse: Said
    def __init__(self, role: _Optional[_Union[Role, str]] = ..., content: _Optional[str] = ..., multiverse: _Optional[_Union[Said, _Mapping]] = ...) -> None: ...

class Said(_message.Message):
    __slots__ = ("context",)
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    context: str
    def __init__(self, context: _Optional[str] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("seq", "start", "text", "fork", "path_end", "join", "usage", "finish", "error")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    PATH_END_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    seq: int
    start: StartEvent
    text: TextEvent
    fork: ForkEvent
    path_end: PathEndEvent
    join: JoinEvent
    usage: UsageEvent
    finish: FinishEvent
    error: ErrorEvent
    def __init__(self, seq: _Optional[int] = ..., start: _Optional[_Union[StartEvent, _Mapping]] = ..., text: _Optional[_Union[TextEvent, _Mapping]] = ..., fork: _Optional[_Union[ForkEvent, _Mapping]] = ..., path_end: _Optional[_Union[PathEndEvent, _Mapping]] = ..., join: _Optional[_Union[JoinEvent, _Mapping]] = ..., usage: _Optional[_Union[UsageEvent, _Mapping]] = ..., finish: _Optional[_Union[FinishEvent, _Mapping]] = ..., error: _Optional[_Union[ErrorEvent, _Mapping]] = ...) -> None: ...

class StartEvent(_message.Message):
    __slots__ = ("request", "model", "prompt_tokens")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    request: str
    model: str
    prompt_tokens: int
    def __init__(self, request: _Optional[str] = ..., model: _Optional[str] = ..., prompt_tokens: _Optional[int] = ...) -> None: ...

class TextEvent(_message.Message):
    __slots__ = ("path", "kind", "delta", "token_ids", "logprobs")
    PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    path: str
    kind: str
    delta: str
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, path: _Optional[str] = ..., kind: _Optional[str] = ..., delta: _Optional[str] = ..., token_ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[_Union[TokenLogprob, _Mapping]]] = ...) -> None: ...

class TokenLogprob(_message.Message):
    __slots__ = ("id", "token", "logprob", "top", "written")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    id: int
    token: str
    logprob: float
    top: _containers.RepeatedCompositeFieldContainer[Probable]
    written: bool
    def __init__(self, id: _Optional[int] = ..., token: _Optional[str] = ..., logprob: _Optional[float] = ..., top: _Optional[_Iterable[_Union[Probable, _Mapping]]] = ..., written: bool = ...) -> None: ...

class Probable(_message.Message):
    __slots__ = ("id", "token", "logprob")
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    id: int
    token: str
    logprob: float
    def __init__(self, id: _Optional[int] = ..., token: _Optional[str] = ..., logprob: _Optional[float] = ...) -> None: ...

class ForkEvent(_message.Message):
    __slots__ = ("path", "k", "paths", "outlines")
    PATH_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    OUTLINES_FIELD_NUMBER: _ClassVar[int]
    path: str
    k: int
    paths: _containers.RepeatedScalarFieldContainer[str]
    outlines: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., k: _Optional[int] = ..., paths: _Optional[_Iterable[str]] = ..., outlines: _Optional[_Iterable[str]] = ...) -> None: ...

class PathEndEvent(_message.Message):
    __slots__ = ("path", "reason", "forced")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORCED_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    forced: bool
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ..., forced: bool = ...) -> None: ...

class JoinEvent(_message.Message):
    __slots__ = ("path", "k", "paths")
    PATH_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    path: str
    k: int
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., k: _Optional[int] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class UsageEvent(_message.Message):
    __slots__ = ("prompt_tokens", "completion_tokens", "written_tokens", "critical_path_tokens", "parallelism", "cached_tokens", "reused_tokens", "irregular")
    class IrregularEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CRITICAL_PATH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REUSED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    IRREGULAR_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    completion_tokens: int
    written_tokens: int
    critical_path_tokens: int
    parallelism: float
    cached_tokens: int
    reused_tokens: int
    irregular: _containers.ScalarMap[str, int]
    def __init__(self, prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., written_tokens: _Optional[int] = ..., critical_path_tokens: _Optional[int] = ..., parallelism: _Optional[float] = ..., cached_tokens: _Optional[int] = ..., reused_tokens: _Optional[int] = ..., irregular: _Optional[_Mapping[str, int]] = ...) -> None: ...

class FinishEvent(_message.Message):
    __slots__ = ("reason", "context", "context_omitted", "stop")
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_OMITTED_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    reason: str
    context: str
    context_omitted: str
    stop: str
    def __init__(self, reason: _Optional[str] = ..., context: _Optional[str] = ..., context_omitted: _Optional[str] = ..., stop: _Optional[str] = ...) -> None: ...

class ErrorEvent(_message.Message):
    __slots__ = ("kind", "message")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetModelResponse(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "dialect", "positions", "context_length")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    name: str
    dialect: str
    positions: str
    context_length: int
    def __init__(self, name: _Optional[str] = ..., dialect: _Optional[str] = ..., positions: _Optional[str] = ..., context_length: _Optional[int] = ...) -> None: ...
