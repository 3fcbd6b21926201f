"""Text to token ids and back, over a Hugging Face `tokenizer.json`.

User text is data: `encode` never yields a control id, whatever the text says. It works on a
tokenizer of its own in which no control token has a spelling (see `spellings`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer as _Tokenizer

from multiverse_shared.errors import InvalidModel
from multiverse_shared.spellings import is_control, unspelled

_KEPT_TEXTS = 1 << 15


class TextTokenizer:
    """A tokenizer whose control tokens can only be had by name.

    Control tokens are the special tokens and those that a vocabulary adds as tags without
    calling them special (`<tool_call>`); the token for unknown text is none.
    """

    def __init__(self, tokenizer_json: str) -> None:
        self._tokenizer = _Tokenizer.from_str(tokenizer_json)
        definition = json.loads(tokenizer_json)
        added = definition.get("added_tokens") or []
        names = {token["content"] for token in added if is_control(token)}
        known = self._tokenizer.get_added_tokens_decoder()  # the file may give other ids
        self._named = {
            token.content: index for index, token in known.items() if token.content in names
        }
        self._unknown = _unknown_id(definition["model"], self._tokenizer)
        # Streams decode each token alone once: as what stands before the next one.
        self._decode_one = lru_cache(_KEPT_TEXTS)(lambda token: self._decode((token,)))
        self._plain = _Tokenizer.from_str(json.dumps(unspelled(definition)))
        self._spelled_out = self._words()
        words = sorted(self._spelled_out, key=len, reverse=True)
        self._word = re.compile("(" + "|".join(map(re.escape, words)) + ")")

    @classmethod
    def from_directory(cls, path: Path) -> TextTokenizer:
        """InvalidModel when `tokenizer.json` is missing or cannot be read."""
        source = path / "tokenizer.json"
        if not source.is_file():
            raise InvalidModel(f"model directory {path} has no tokenizer.json", field="model")
        try:
            return cls(source.read_text("utf-8"))
        except Exception as error:  # the library raises nothing narrower
            raise InvalidModel(f"{source} cannot be read: {error}", field="model") from None

    @property
    def vocab_size(self) -> int:
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    @property
    def unknown_id(self) -> int | None:
        """Id of what the vocabulary can't tell, if it has one."""
        return self._unknown

    @property
    def control_ids(self) -> frozenset[int]:
        """Ids of all control tokens."""
        return frozenset(self._named.values()) - {self._unknown}

    def token_id(self, token: str) -> int | None:
        """Id of the control token spelled `token`, if there is one."""
        index = self._named.get(token)
        return None if index == self._unknown else index

    def encode(self, text: str) -> list[int]:
        """Ids of plain text; control tags in it are ordinary characters."""
        if not self._spelled_out or not self._word.search(text):
            [encoding] = self._plain.encode_batch([text], add_special_tokens=False)  # frees the GIL
            return list(encoding.ids)
        pieces = self._word.split(text)
        between = self._plain.encode_batch(pieces[::2], add_special_tokens=False)
        ids: list[int] = list(between[0].ids)
        for word, encoding in zip(pieces[1::2], between[1:], strict=True):
            ids += self._spelled_out[word]
            ids += encoding.ids
        return ids

    def encode_trusted(self, text: str) -> list[int]:
        """Ids of text that the model's own template wrote: control tags are control ids."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, control tokens spelled out."""
        return self._decode_one(ids[0]) if len(ids) == 1 else self._decode(ids)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def _words(self) -> dict[str, list[int]]:
        """Control tokens that are one unknown word to the vocabulary, character by character."""
        found: dict[str, list[int]] = {}
        for token in self._named:
            if self._plain.encode(token, add_special_tokens=False).ids == [self._unknown]:
                letters = self._plain.encode_batch(list(token), add_special_tokens=False)
                found[token] = [index for letter in letters for index in letter.ids]
        return found


def _unknown_id(model: dict[str, object], tokenizer: _Tokenizer) -> int | None:
    """Unigram names the id, the other kinds of vocabulary name the token."""
    index = model.get("unk_id")
    if isinstance(index, int):
        return index
    token = model.get("unk_token")
    found = tokenizer.token_to_id(token) if isinstance(token, str) else None
    return None if found is None else int(found)
