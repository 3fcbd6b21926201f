"""Text to token ids and back, over a Hugging Face `tokenizer.json`.

User text is data: `encode` never yields a control id, whatever the text says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer as _Tokenizer

from multiverse_shared.errors import InvalidModel


class TextTokenizer:
    """A tokenizer whose special tokens can only be had by name."""

    def __init__(self, tokenizer_json: str) -> None:
        self._trusted = _Tokenizer.from_str(tokenizer_json)
        self._tokenizer = _Tokenizer.from_str(tokenizer_json)
        self._tokenizer.encode_special_tokens = True  # spell special tokens out as characters
        added = self._tokenizer.get_added_tokens_decoder()
        self._control = {index for index, token in added.items() if token.special}

    @classmethod
    def from_directory(cls, path: Path) -> TextTokenizer:
        source = path / "tokenizer.json"
        if not source.is_file():
            raise InvalidModel(f"model directory {path} has no tokenizer.json", field="model")
        return cls(source.read_text("utf-8"))

    @property
    def vocab_size(self) -> int:
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    @property
    def control_ids(self) -> frozenset[int]:
        """Ids of all special tokens."""
        return frozenset(self._control)

    def token_id(self, token: str) -> int | None:
        """Id of the special token spelled `token`, if there is one."""
        index = self._tokenizer.token_to_id(token)
        return index if index in self._control else None

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; control tags in it become ordinary characters."""
        [encoding] = self._tokenizer.encode_batch([text], add_special_tokens=False)  # frees the GIL
        ids: list[int] = encoding.ids
        if self._control.isdisjoint(ids):
            return ids
        # The model's own vocabulary spells a control token: encode its characters apart.
        return [
            index
            for character in text
            for index in self._tokenizer.encode(character, add_special_tokens=False).ids
            if index not in self._control
        ]

    def encode_trusted(self, text: str) -> list[int]:
        """Ids of text that the model's own template wrote: control tags are control ids."""
        return list(self._trusted.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens spelled out."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))
