"""A copy of a model whose dialect's tags are special tokens with rows of their own.

The row of a new tag is the mean of the rows of the words that it stands for (see `words`), in
the embedding and in the output head. Without training that is a start, no skill.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from multiverse_shared.dialect import Dialect
from multiverse_shared.errors import InvalidModel
from multiverse_shared.model_card import ModelCard
from multiverse_shared.tag_tokens import TagTokens, special_token, with_tags, words
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_worker.models.checkpoint import Checkpoint
from multiverse_worker.models.directory import weights_in
from multiverse_worker.models.vocabulary_rows import (
    Row,
    Rows,
    copy_with_rows,
    vocabulary_tensors,
)

_INDEX = "model.safetensors.index.json"
_OTHER_WEIGHTS = (".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx")


@dataclass(frozen=True, slots=True)
class AddedTags:
    """What was done: ids by tag."""

    new: dict[str, int]  # with a new row
    kept: dict[str, int]  # the vocabulary had them; their rows are as they were
    vocab_size: int  # rows of the model


def add_tags(source: Path, target: Path, dialect: Dialect) -> AddedTags:
    """Write the model to `target`, all at once or not at all.

    Top-level files are copied, other formats of the weights are not. InvalidModel when the
    target exists, a file of the source is missing or wrong, or the tensors have other names
    than Llama's.
    """
    if target.exists():
        raise InvalidModel(f"{target} exists; name a new directory", field="out")
    if not source.is_dir():
        raise InvalidModel(f"{source} is not a directory with a model", field="model")
    unfinished = target.with_name(f".{target.name}.{uuid4().hex[:8]}.part")
    unfinished.mkdir(parents=True)
    try:
        done = _write(source, unfinished, dialect)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return done


def _write(source: Path, target: Path, dialect: Dialect) -> AddedTags:
    for path in source.iterdir():
        if path.is_file() and path.suffix not in (".safetensors", *_OTHER_WEIGHTS):
            shutil.copyfile(path, target / path.name)
    tokenizer = TextTokenizer.from_directory(source)
    tokens = with_tags(_read_json(source / "tokenizer.json"), dialect.tags.values())
    config = _read_json(source / "config.json")
    new = _write_weights(source, target, tokens, tokenizer, config)
    config["vocab_size"] = max(config["vocab_size"], *(index + 1 for index in tokens.ids.values()))
    _write_json(target / "config.json", config)
    _write_json(target / "multiverse.json", _card(source, dialect))
    _write_json(target / "tokenizer.json", tokens.definition)
    _name_tokens(target / "tokenizer_config.json", tokens)
    kept = {tag: index for tag, index in tokens.ids.items() if tag not in new}
    return AddedTags(new, kept, config["vocab_size"])


def _card(source: Path, dialect: Dialect) -> dict[str, str]:
    """The suffix that the model was trained with, if it has one."""
    path = source / "multiverse.json"
    suffix = ModelCard.parse(path.read_bytes()).prompt_suffix if path.is_file() else ""
    return {"dialect": dialect.name, "prompt_suffix": suffix}


def _name_tokens(path: Path, tokens: TagTokens) -> None:
    """Tell transformers of the special tokens, where it keeps its own list of them."""
    config = _read_json(path) if path.is_file() else {}
    if isinstance(listed := config.get("added_tokens_decoder"), dict):
        for tag, index in tokens.ids.items():
            entry = special_token(tag, index)
            listed[str(entry.pop("id"))] = entry
    key = "extra_special_tokens"  # a list since transformers 5
    if not isinstance(config.get(key), list):
        key = "additional_special_tokens"
    known = config.get(key) or []
    spelled = [token["content"] if isinstance(token, dict) else token for token in known]
    config[key] = [*known, *(tag for tag in tokens.ids if tag not in spelled)]
    _write_json(path, config)


def _write_weights(
    source: Path,
    target: Path,
    tokens: TagTokens,
    tokenizer: TextTokenizer,
    config: Mapping[str, Any],
) -> dict[str, int]:
    """Copy the weights with rows for the tags that have none; returns those tags."""
    tensors = vocabulary_tensors(source)
    size: int = config.get("vocab_size", 0)
    for name, checkpoint in tensors.items():
        rows = checkpoint.entries[name]["shape"][0]
        if rows != size:
            raise InvalidModel(
                f"{source}: config.json has vocab_size {size}, but {name} has {rows} rows; "
                "fetch files that belong together",
                field="model",
            )
    new = {tag: index for tag, index in tokens.ids.items() if tag in tokens.new or index >= size}
    if orphans := set(range(size, tokenizer.vocab_size)) - set(new.values()):
        raise InvalidModel(
            f"{source}: token {min(orphans)} of tokenizer.json has no row in the weights; "
            "fetch files that belong together",
            field="model",
        )
    changes = {
        name: _new_rows(checkpoint, name, new, tokenizer) for name, checkpoint in tensors.items()
    }
    grown = sum(
        copy_with_rows(Checkpoint.open(path), target / path.name, changes)
        for path in weights_in(source)
    )
    if (target / _INDEX).is_file():
        _count(target / _INDEX, grown)
    return new


def _new_rows(
    checkpoint: Checkpoint, name: str, new: Mapping[str, int], tokenizer: TextTokenizer
) -> Rows:
    """Means of the rows of the words. InvalidModel when the tokenizer can't tell them."""
    rows: dict[int, Row] = {}
    for tag, index in new.items():
        ids = tokenizer.encode(words(tag))
        if not ids:
            raise InvalidModel(
                f"the tokenizer gives no ids for {words(tag)!r}, which {tag} stands for; its "
                "vocabulary needs a token for unknown text",
                field="model",
            )
        rows[index] = checkpoint.read_rows(name, ids).mean(axis=0, dtype=np.float32)
    return rows


def _count(index: Path, grown: int) -> None:
    """`metadata.total_size` is the size of all tensors in bytes."""
    about = _read_json(index)
    metadata = about.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("total_size"), int):
        metadata["total_size"] += grown
    _write_json(index, about)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise InvalidModel(f"{path.parent} has no {path.name}", field="model") from None
    except ValueError as error:
        raise InvalidModel(f"{path} is not JSON: {error}", field="model") from None
    if not isinstance(data, dict):
        raise InvalidModel(f"{path} must hold an object", field="model")
    return data


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")
