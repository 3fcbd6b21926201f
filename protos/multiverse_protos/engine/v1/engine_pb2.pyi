from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JoinRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOIN_RULE_UNSPECIFIED: _ClassVar[JoinRule]
    JOIN_RULE_STITCH: _ClassVar[JoinRule]
    JOIN_RULE_RESERVE: _ClassVar[JoinRule]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_ABORTED: _ClassVar[FinishReason]
    FINISH_REASON_FAILED: _ClassVar[FinishReason]

class Capability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPABILITY_UNSPECIFIED: _ClassVar[Capability]
    CAPABILITY_FREE_POSITIONS: _ClassVar[Capability]
JOIN_RULE_UNSPECIFIED: JoinRule
JOIN_RULE_STITCH: JoinRule
JOIN_RULE_RESERVE: JoinRule
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_ABORTED: FinishReason
FINISH_REASON_FAILED: FinishReason
CAPABILITY_UNSPECIFIED: Capability
CAPABILITY_FREE_POSITIONS: Capability

class RunRequest(_message.Message):
    __slots__ = ("start", "abort", "release", "more")
    START_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    start: Start
    abort: Abort
    release: Release
    more: _containers.RepeatedCompositeFieldContainer[RunRequest]
    def __init__(self, start: _Optional[_Union[Start, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., more: _Optional[_Iterable[_Union[RunRequest, _Mapping]]] = ...) -> None: ...

class RunResponse(_message.Message):
    __slots__ = ("updates",)
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    updates: _containers.RepeatedCompositeFieldContainer[Update]
    def __init__(self, updates: _Optional[_Iterable[_Union[Update, _Mapping]]] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("branch", "request", "block", "base_key", "context", "sampling", "stops", "max_tokens", "length_tail", "consumes", "script", "salt", "ship_from", "traceparent")
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    BASE_KEY_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LENGTH_TAIL_FIELD_NUMBER: _ClassVar[int]
    CONSUMES_FIELD_NUMBER: _ClassVar[int]
    SCRIPT_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    SHIP_FROM_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    branch: int
    request: str
    block: int
    base_key: bytes
    context: Context
    sampling: Sampling
    stops: _containers.RepeatedCompositeFieldContainer[Stop]
    max_tokens: int
    length_tail: _containers.RepeatedScalarFieldContainer[int]
    consumes: _containers.RepeatedScalarFieldContainer[str]
    script: _containers.RepeatedScalarFieldContainer[int]
    salt: bytes
    ship_from: int
    traceparent: str
    def __init__(self, branch: _Optional[int] = ..., request: _Optional[str] = ..., block: _Optional[int] = ..., base_key: _Optional[bytes] = ..., context: _Optional[_Union[Context, _Mapping]] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., stops: _Optional[_Iterable[_Union[Stop, _Mapping]]] = ..., max_tokens: _Optional[int] = ..., length_tail: _Optional[_Iterable[int]] = ..., consumes: _Optional[_Iterable[str]] = ..., script: _Optional[_Iterable[int]] = ..., salt: _Optional[bytes] = ..., ship_from: _Optional[int] = ..., traceparent: _Optional[str] = ...) -> None: ...

class Context(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Item]
    def __init__(self, items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("text", "block")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    text: Text
    block: Block
    def __init__(self, text: _Optional[_Union[Text, _Mapping]] = ..., block: _Optional[_Union[Block, _Mapping]] = ...) -> None: ...

class Text(_message.Message):
    __slots__ = ("ids", "start")
    IDS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    start: int
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., start: _Optional[int] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("paths", "rule", "path_offset", "join_offset")
    PATHS_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    PATH_OFFSET_FIELD_NUMBER: _ClassVar[int]
    JOIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedCompositeFieldContainer[Context]
    rule: JoinRule
    path_offset: int
    join_offset: int
    def __init__(self, paths: _Optional[_Iterable[_Union[Context, _Mapping]]] = ..., rule: _Optional[_Union[JoinRule, str]] = ..., path_offset: _Optional[int] = ..., join_offset: _Optional[int] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ("temperature", "top_p", "top_k", "seed", "stream", "draws", "banned", "logprobs", "top_logprobs", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "penalised_from", "logit_bias")
    class LogitBiasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DRAWS_FIELD_NUMBER: _ClassVar[int]
    BANNED_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    PENALISED_FROM_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    temperature: float
    top_p: float
    top_k: int
    seed: int
    stream: str
    draws: int
    banned: _containers.RepeatedCompositeFieldContainer[Ids]
    logprobs: bool
    top_logprobs: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    penalised_from: int
    logit_bias: _containers.ScalarMap[int, float]
    def __init__(self, temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., seed: _Optional[int] = ..., stream: _Optional[str] = ..., draws: _Optional[int] = ..., banned: _Optional[_Iterable[_Union[Ids, _Mapping]]] = ..., logprobs: bool = ..., top_logprobs: _Optional[int] = ..., min_p: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., penalised_from: _Optional[int] = ..., logit_bias: _Optional[_Mapping[int, float]] = ...) -> None: ...

class Ids(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Stop(_message.Message):
    __slots__ = ("ids", "tail", "drop")
    IDS_FIELD_NUMBER: _ClassVar[int]
    TAIL_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    tail: _containers.RepeatedScalarFieldContainer[int]
    drop: bool
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., tail: _Optional[_Iterable[int]] = ..., drop: bool = ...) -> None: ...

class Abort(_message.Message):
    __slots__ = ("branch",)
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    branch: int
    def __init__(self, branch: _Optional[int] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: str
    def __init__(self, lease: _Optional[str] = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ("branch", "ids", "logprobs", "finish", "top_logprobs")
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    branch: int
    ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    finish: Finish
    top_logprobs: _containers.RepeatedCompositeFieldContainer[TopLogprobs]
    def __init__(self, branch: _Optional[int] = ..., ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ..., finish: _Optional[_Union[Finish, _Mapping]] = ..., top_logprobs: _Optional[_Iterable[_Union[TopLogprobs, _Mapping]]] = ...) -> None: ...

class TopLogprobs(_message.Message):
    __slots__ = ("ids", "logprobs")
    IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[float]] = ...) -> None: ...

class Finish(_message.Message):
    __slots__ = ("reason", "stop", "appended", "lease", "key", "reused_tokens", "context_tokens", "code", "message", "fetched_tokens")
    REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    REUSED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FETCHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    reason: FinishReason
    stop: int
    appended: _containers.RepeatedScalarFieldContainer[int]
    lease: str
    key: bytes
    reused_tokens: int
    context_tokens: int
    code: str
    message: str
    fetched_tokens: int
    def __init__(self, reason: _Optional[_Union[FinishReason, str]] = ..., stop: _Optional[int] = ..., appended: _Optional[_Iterable[int]] = ..., lease: _Optional[str] = ..., key: _Optional[bytes] = ..., reused_tokens: _Optional[int] = ..., context_tokens: _Optional[int] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., fetched_tokens: _Optional[int] = ...) -> None: ...

class GetModelFilesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetModelFilesResponse(_message.Message):
    __slots__ = ("name", "data", "last", "sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    data: bytes
    last: bool
    sha256: bytes
    def __init__(self, name: _Optional[str] = ..., data: _Optional[bytes] = ..., last: bool = ..., sha256: _Optional[bytes] = ...) -> None: ...

class GetModelInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetModelInfoResponse(_message.Message):
    __slots__ = ("model", "files_digest", "namespace", "engine", "engine_version", "context_length", "kv_cells", "vocab_size", "capabilities")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    FILES_DIGEST_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    model: str
    files_digest: str
    namespace: str
    engine: str
    engine_version: str
    context_length: int
    kv_cells: int
    vocab_size: int
    capabilities: _containers.RepeatedScalarFieldContainer[Capability]
    def __init__(self, model: _Optional[str] = ..., files_digest: _Optional[str] = ..., namespace: _Optional[str] = ..., engine: _Optional[str] = ..., engine_version: _Optional[str] = ..., context_length: _Optional[int] = ..., kv_cells: _Optional[int] = ..., vocab_size: _Optional[int] = ..., capabilities: _Optional[_Iterable[_Union[Capability, str]]] = ...) -> None: ...

class WatchLoadRequest(_message.Message):
    __slots__ = ("cache",)
    CACHE_FIELD_NUMBER: _ClassVar[int]
    cache: CacheHeard
    def __init__(self, cache: _Optional[_Union[CacheHeard, _Mapping]] = ...) -> None: ...

class CacheHeard(_message.Message):
    __slots__ = ("cache", "sequence")
    CACHE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    cache: str
    sequence: int
    def __init__(self, cache: _Optional[str] = ..., sequence: _Optional[int] = ...) -> None: ...

class WatchLoadResponse(_message.Message):
    __slots__ = ("sequence", "running", "waiting", "leases", "kv_cells_free", "kv_cells", "draining", "kv_cells_idle", "kv_cells_leased", "step_ms", "cache")
    class StepMsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_FREE_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_IDLE_FIELD_NUMBER: _ClassVar[int]
    KV_CELLS_LEASED_FIELD_NUMBER: _ClassVar[int]
    STEP_MS_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    running: int
    waiting: int
    leases: int
    kv_cells_free: int
    kv_cells: int
    draining: bool
    kv_cells_idle: int
    kv_cells_leased: int
    step_ms: _containers.ScalarMap[int, float]
    cache: CacheChanges
    def __init__(self, sequence: _Optional[int] = ..., running: _Optional[int] = ..., waiting: _Optional[int] = ..., leases: _Optional[int] = ..., kv_cells_free: _Optional[int] = ..., kv_cells: _Optional[int] = ..., draining: bool = ..., kv_cells_idle: _Optional[int] = ..., kv_cells_leased: _Optional[int] = ..., step_ms: _Optional[_Mapping[int, float]] = ..., cache: _Optional[_Union[CacheChanges, _Mapping]] = ...) -> None: ...

class CacheChanges(_message.Message):
    __slots__ = ("cache", "after", "sequence", "anew", "held", "gone")
    CACHE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ANEW_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    cache: str
    after: int
    sequence: int
    anew: bool
    held: _containers.RepeatedScalarFieldContainer[int]
    gone: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, cache: _Optional[str] = ..., after: _Optional[int] = ..., sequence: _Optional[int] = ..., anew: bool = ..., held: _Optional[_Iterable[int]] = ..., gone: _Optional[_Iterable[int]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("grace_s",)
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    grace_s: int
    def __init__(self, grace_s: _Optional[int] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("aborted",)
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    aborted: int
    def __init__(self, aborted: _Optional[int] = ...) -> None: ...
