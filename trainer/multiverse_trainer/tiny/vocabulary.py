"""The vocabulary of the tiny model: single characters, a few words, and its dialect's tags.

Knows spellings and how text is split into them. Must not know tasks or tensors.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_letters, digits

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from multiverse_shared.dialect import Dialect
from multiverse_shared.tokenizer import TextTokenizer

SUFFIX = " in parallel"  # ends the prompt of a request that wants forks
WORDS = ("sum", "max", "min", "count", "list", "by", "inparallel", "yes", "no", "none")
CHARACTERS = (*digits, *"+-=:,;#()?", *ascii_letters)
CHAT_TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"
LONGEST_CONTEXT = 2048  # positions

_SPACE = r"\s+"
_PIECE = "|".join((*sorted(WORDS, key=len, reverse=True), "."))


class Vocabulary:
    """Tokens by id; a token's id is its place in `tokens`. Text is split without its whitespace."""

    def __init__(self, dialect: Dialect) -> None:
        self._control = ("<pad>", "<bos>", "<eos>", *dialect.tags.values())
        # <unk> is no control token: an unknown character in a prompt is data like any other.
        self.tokens = (*self._control, "<unk>", *WORDS, *CHARACTERS)
        self._ids = {token: index for index, token in enumerate(self.tokens)}
        self.pad, self.bos, self.eos = (self._ids[token] for token in self._control[:3])
        self.unknown = self._ids["<unk>"]

    def tokenizer_json(self) -> str:
        """As a Hugging Face tokenizer."""
        tokenizer = Tokenizer(models.WordLevel(self._ids, unk_token="<unk>"))
        tokenizer.normalizer = normalizers.Replace(Regex(_SPACE), "")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECE), behavior="isolated")
        tokenizer.decoder = decoders.Fuse()
        tokenizer.add_special_tokens(
            [AddedToken(token, special=True, normalized=False) for token in self._control]
        )
        return str(tokenizer.to_str(pretty=True))

    def write(self, directory: Path) -> None:
        """Tokenizer, chat template and generation settings; ValueError if ids do not agree."""
        source = self.tokenizer_json()
        self._check(TextTokenizer(source))
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "tokenizer.json").write_text(source + "\n", "utf-8")
        (directory / "chat_template.jinja").write_text(CHAT_TEMPLATE + "\n", "utf-8")
        _write_json(
            directory / "tokenizer_config.json",
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": "<bos>",
                "eos_token": "<eos>",
                "pad_token": "<pad>",
                "unk_token": "<unk>",
                "model_max_length": LONGEST_CONTEXT,
                "clean_up_tokenization_spaces": False,
            },
        )
        _write_json(
            directory / "generation_config.json",
            {"bos_token_id": self.bos, "eos_token_id": self.eos, "pad_token_id": self.pad},
        )

    def _check(self, written: TextTokenizer) -> None:
        for index, token in enumerate(self.tokens):
            control = token in self._control
            ids = written.encode_trusted(token) if control else written.encode(token)
            if token != "<unk>" and (ids != [index] or written.decode(ids) != token):
                raise ValueError(f"token {token!r} is {ids} in the written tokenizer, not {index}")
            if not written.control_ids.isdisjoint(written.encode(f"sum {token}?")):
                raise ValueError(f"text {token!r} in a prompt is not read as characters")


def _write_json(path: Path, data: dict[str, object]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
