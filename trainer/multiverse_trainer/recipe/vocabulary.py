"""The tokenizer of a training and the rows of its tags, made from the words they stand for.

`<Parallel>` begins as the mean of the rows of "Parallel", `</Parallel>` as that of "end of
Parallel", in the embedding and in an output head of its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoTokenizer

from multiverse_shared.dialect import Dialect, load_dialect
from multiverse_shared.errors import InvalidModel
from multiverse_shared.grammar import Grammar
from multiverse_shared.tag_tokens import TagTokens, with_tags, words
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_trainer.data.rendering import Frame

_TEXT_FILES = ("tokenizer_config.json", "chat_template.jinja", "generation_config.json")
_USER = "\ue000user\ue001"  # stands for the user's text in a rendered template


@dataclass(frozen=True, slots=True)
class TrainingVocabulary:
    """The tokenizer of a model directory with the tags of a dialect."""

    source: Path
    dialect: Dialect
    tokens: TagTokens
    tokenizer: TextTokenizer

    @classmethod
    def load(cls, source: Path, dialect_name: str) -> TrainingVocabulary:
        """InvalidModel or InvalidDialect where a model cannot be trained on the dialect."""
        dialect = load_dialect(dialect_name)
        path = source / "tokenizer.json"
        if not path.is_file():
            raise InvalidModel(f"{source} has no tokenizer.json", field="model")
        tokens = with_tags(json.loads(path.read_text("utf-8")), dialect.tags.values())
        tokenizer = TextTokenizer(json.dumps(tokens.definition))
        return cls(source, dialect, tokens, tokenizer)

    @property
    def grammar(self) -> Grammar:
        return Grammar.bind(self.dialect, self.tokenizer)

    def frame(self, suffix: str, answer_lead: str) -> Frame:
        """What the model's chat template writes around the user's text."""
        template = AutoTokenizer.from_pretrained(self.source)
        if not template.chat_template:
            raise InvalidModel(
                f"{self.source} has no chat template; put a chat_template.jinja into it",
                field="model",
            )
        user = {"role": "user", "content": _USER}
        text = template.apply_chat_template([user], tokenize=False, add_generation_prompt=True)
        head, found, tail = text.partition(_USER)
        if not found or _USER in tail or template.eos_token_id is None:
            raise InvalidModel(
                f"the chat template of {self.source} must write the user's text once, and its "
                "tokenizer_config.json must name an eos_token",
                field="model",
            )
        trusted = self.tokenizer.encode_trusted
        return Frame(
            tuple(trusted(head)),
            tuple(trusted(tail)),
            suffix,
            tuple(trusted(answer_lead)) if answer_lead else (),
            (int(template.eos_token_id),),
        )

    def initialise(self, model: Any, which: str) -> list[str]:
        """Make rows for tags that have none, and fill those (or all) from their words.

        Returns the tags that were filled. Works in place; tied heads share the rows.
        """
        had = model.get_input_embeddings().weight.shape[0]
        need = max(self.tokens.ids.values()) + 1
        if need > had:
            model.resize_token_embeddings(need, mean_resizing=False)
        known = min(had, self.tokenizer.vocab_size)
        fresh = [
            tag
            for tag, index in self.tokens.ids.items()
            if which == "all" or tag in self.tokens.new or index >= known
        ]
        weights = [model.get_input_embeddings().weight]
        head = model.get_output_embeddings()
        if head is not None and head.weight is not weights[0]:
            weights.append(head.weight)
        for weight in weights:
            self._fill(weight, fresh)
        return fresh

    def _fill(self, weight: Tensor, tags: Iterable[str]) -> None:
        with torch.no_grad():
            means = {tag: weight[self._words(tag)].float().mean(0) for tag in tags}
            for tag, mean in means.items():
                weight[self.tokens.ids[tag]] = mean.to(weight.dtype)

    def _words(self, tag: str) -> list[int]:
        ids = self.tokenizer.encode(words(tag))
        if not ids:
            raise InvalidModel(f"the tokenizer has no ids for {words(tag)!r}", field="model")
        return ids

    def write(self, target: Path, suffix: str) -> None:
        """Tokenizer, templates and `multiverse.json` of a finished model."""
        for name in _TEXT_FILES:
            if (self.source / name).is_file():
                shutil.copyfile(self.source / name, target / name)
        definition = json.dumps(self.tokens.definition, ensure_ascii=False, indent=2)
        (target / "tokenizer.json").write_text(definition + "\n", "utf-8")
        known = self.source / "multiverse.json"
        card = json.loads(known.read_text("utf-8")) if known.is_file() else {}
        card |= {"dialect": self.dialect.name, "prompt_suffix": suffix}
        (target / "multiverse.json").write_text(json.dumps(card, indent=2) + "\n", "utf-8")
