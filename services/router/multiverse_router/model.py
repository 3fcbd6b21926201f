"""The model as the router sees it: tokenizer, template, grammar, limits of its worker.

Made from the files that the worker serves; the router has no model files of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.chat_template import ChatTemplate
from multiverse_router.history import HistoryReader
from multiverse_router.prompt import PromptWriter
from multiverse_router.settings import Positions
from multiverse_router.thinking import Thinking
from multiverse_shared.dialect import Dialect
from multiverse_shared.errors import InvalidModel
from multiverse_shared.grammar import Grammar
from multiverse_shared.layout import next_position
from multiverse_shared.limits import Limits
from multiverse_shared.model_card import ModelCard
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Context, count

_DEFAULTS = Limits()
_TEMPLATE_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model behind this router."""

    name: str
    digest: str  # of its text files
    namespace: str  # of its worker's content keys
    tokenizer: TextTokenizer
    prompts: PromptWriter
    grammar: Grammar
    positions: Positions
    eos: tuple[int, ...]
    context_length: int
    kv_cells: int
    vocab_size: int  # of the model's logits; the tokenizer may have fewer ids
    thinking: Thinking | None  # None: it does not think between tags

    @classmethod
    def of(
        cls,
        info: pb.GetModelInfoResponse,
        files: Mapping[str, bytes],
        positions: Positions = Positions.TRAINED,
        history: Limits = _DEFAULTS,
    ) -> ServedModel:
        """InvalidModel names the file that is missing or wrong, or what can't be served.

        `history` are the limits of what is read in earlier answers.
        """
        for name in ("tokenizer.json", "multiverse.json"):
            if name not in files:
                raise InvalidModel(f"the worker of {info.model} serves no {name}")
        tokenizer = _tokenizer(files)
        card = ModelCard.parse(files["multiverse.json"])
        grammar = Grammar.bind(servable(card.dialect, info, positions), tokenizer)
        config = json_of(files, "tokenizer_config.json")
        return cls(
            name=info.model,
            digest=info.files_digest,
            namespace=info.namespace,
            tokenizer=tokenizer,
            prompts=PromptWriter(
                tokenizer,
                template_of(files, config),
                HistoryReader(grammar, history, info.kv_cells),
                card.prompt_suffix,
            ),
            grammar=grammar,
            positions=positions,
            eos=eos_of(json_of(files, "generation_config.json"), config, tokenizer),
            context_length=info.context_length,
            kv_cells=info.kv_cells,
            vocab_size=info.vocab_size,
            thinking=Thinking.of(card.thinking, tokenizer) if card.thinking else None,
        )

    @property
    def layout(self) -> str:
        """What a tree of ids was made for: the model's files, and where paths stand."""
        return f"{self.digest} {self.positions.value}"

    def room(self, prompt: Context) -> int:
        """Tokens that can stand one after another behind a prompt."""
        positions = self.context_length - self._after_plan - next_position(prompt)
        return min(positions, self.pool_room(prompt))

    def pool_room(self, prompt: Context) -> int:
        """Tokens that can stand behind a prompt in all."""
        return self.kv_cells - self._after_plan - count(prompt)

    @property
    def _after_plan(self) -> int:
        """A tail that a worker may append to a branch that has used up its tokens."""
        return len(self.grammar.after_plan)


def servable(dialect: Dialect, info: pb.GetModelInfoResponse, positions: Positions) -> Dialect:
    """The dialect as this worker can serve it; InvalidModel when it can't."""
    if not dialect.parent_waits:
        raise InvalidModel(
            f"dialect {dialect.name!r} can be read (`multiverse parse`), but not served yet",
            field="dialect",
        )
    if positions is Positions.SEQUENTIAL:
        return replace(dialect, path_offset=0, join_offset=0)
    repeats = dialect.path_offset or dialect.join_offset
    if repeats and pb.CAPABILITY_FREE_POSITIONS not in info.capabilities:
        raise InvalidModel(
            f"dialect {dialect.name!r} was trained with offset positions, which the engine "
            f"{info.engine!r} can't give; set MULTIVERSE_ROUTER_POSITIONS=sequential to serve it "
            "without them",
            field="positions",
        )
    return dialect


def json_of(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    """What the file holds, nothing if it is not there. InvalidModel when it is no object."""
    try:
        data = json.loads(files.get(name, b"{}"))
    except ValueError as error:
        raise InvalidModel(f"{name} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise InvalidModel(f"{name} must hold an object")
    return data


def _tokenizer(files: Mapping[str, bytes]) -> TextTokenizer:
    try:
        return TextTokenizer(files["tokenizer.json"].decode("utf-8"))
    except Exception as error:  # the library raises nothing narrower
        raise InvalidModel(f"tokenizer.json cannot be read: {error}") from None


def template_of(files: Mapping[str, bytes], config: Mapping[str, Any]) -> ChatTemplate:
    """The template of a model with this tokenizer configuration; InvalidModel without one."""
    try:
        source = files["chat_template.jinja"].decode() if "chat_template.jinja" in files else None
    except UnicodeDecodeError as error:
        raise InvalidModel(f"chat_template.jinja is not UTF-8: {error}") from None
    source = source or config.get("chat_template")
    if not isinstance(source, str):
        raise InvalidModel("the model has no chat_template.jinja; add one to its directory")
    variables = {name: _spelling(config[name]) for name in _TEMPLATE_TOKENS if config.get(name)}
    return ChatTemplate(source, variables)


def _spelling(token: Any) -> str:
    if isinstance(token, dict) and not isinstance(token.get("content"), str):
        raise InvalidModel("tokenizer_config.json: a token needs a content")
    return str(token["content"]) if isinstance(token, dict) else str(token)


def eos_of(
    generation: Mapping[str, Any], config: Mapping[str, Any], tokenizer: TextTokenizer
) -> tuple[int, ...]:
    """Ids that end a sequence: the generation config's, else the tokenizer's."""
    found = generation.get("eos_token_id")
    if isinstance(found, int):
        return (found,)
    if isinstance(found, list) and found:
        return tuple(found)
    token = tokenizer.token_id(_spelling(config.get("eos_token", "")))
    if token is None:
        raise InvalidModel("the model names no end of sequence; set eos_token_id")
    return (token,)
