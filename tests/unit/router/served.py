"""A small real model as a router sees it: byte-level tokenizer, template, dialect."""

from __future__ import annotations

import json
from functools import cache

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.model import ServedModel
from multiverse_shared.dialect import load_dialect
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Context, linearise

TAGS = tuple(load_dialect("multiverse").tags.values())
EOS = "<eos>"
BOS = "<bos>"
SUFFIX = " in parallel"
TEMPLATE = "{{ bos_token }}{% for m in messages %}<Path>{{ m.role }}:{{ m.content }}{% endfor %}"
_SENTENCES = (
    "Both paths agree: 12 + 30 = 42, and here is why it is so.",
    "naïve café, Ελληνικά, 日本語のテキスト, 👩‍👩‍👧 and 👍🏽 and e\u0301",
)


@cache
def tokenizer_json() -> str:
    """Byte-level BPE: any text can be told, and characters are cut by id borders."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(tag, special=True, normalized=False) for tag in (BOS, EOS, *TAGS)]
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_SENTENCES, trainer)
    return str(tokenizer.to_str())


@cache
def tokenizer() -> TextTokenizer:
    return TextTokenizer(tokenizer_json())


def model_files(**changes: bytes | None) -> dict[str, bytes]:
    """The files of a good model; `name_ext=...` replaces the file `name.ext`, None removes it."""
    files: dict[str, bytes | None] = {
        "tokenizer.json": tokenizer_json().encode(),
        "multiverse.json": json.dumps({"dialect": "multiverse", "prompt_suffix": SUFFIX}).encode(),
        "tokenizer_config.json": json.dumps({"bos_token": BOS, "eos_token": EOS}).encode(),
        "chat_template.jinja": TEMPLATE.encode(),
        "generation_config.json": b"{}",
    }
    for name, content in changes.items():
        stem, _, extension = name.rpartition("_")
        files[f"{stem}.{extension}"] = content
    return {name: content for name, content in files.items() if content is not None}


def model_info(context_length: int = 2048, kv_cells: int = 4096) -> pb.GetModelInfoResponse:
    return pb.GetModelInfoResponse(
        model="small", context_length=context_length, kv_cells=kv_cells, vocab_size=330
    )


def served_model(
    *, context_length: int = 2048, kv_cells: int = 4096, **changes: bytes | None
) -> ServedModel:
    return ServedModel.of(model_info(context_length, kv_cells), model_files(**changes))


def told(context: Context) -> str:
    """A context as one text."""
    return tokenizer().decode(linearise(context))
