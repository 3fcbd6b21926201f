"""Real tokenizers of three kinds, each made so that client text has a way to a control id.

All carry the tags of one dialect, the markers of the chat templates and an end of sequence as
special tokens. The vocabularies spell them as well, by merges, as pieces or as words.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable
from functools import cache

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from multiverse_shared.dialect import dialect_names, load_dialect
from multiverse_shared.tokenizer import TextTokenizer

DIALECTS = tuple(dialect_names())
MARKERS = ("<bos>", "<eos>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<think>")
_ASCII = [chr(code) for code in range(33, 127)]
_BYTES = [f"<0x{code:02X}>" for code in range(256)]
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
_TEXT = "the answer is forty two, for both paths agree; naïve café, 日本語, 👩‍👩‍👧 "


@cache
def controls(dialect: str) -> tuple[str, ...]:
    return (*dict.fromkeys(load_dialect(dialect).tags.values()), *MARKERS)


def _byte_level(spellings: tuple[str, ...]) -> Tokenizer:
    """Nothing is cut into words first, so that the merges spell whole tags."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _train(tokenizer, trainers.BpeTrainer(initial_alphabet=alphabet, **_sizes(700)), spellings)
    return tokenizer


def _sentencepiece_merges(spellings: tuple[str, ...]) -> Tokenizer:
    """As the first Llamas have it: a space before the text, bytes for unknown characters."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(_SPACE), normalizers.Replace(" ", _SPACE)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(_SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    special = ["<unk>", *_BYTES]
    _train(tokenizer, trainers.BpeTrainer(special_tokens=special, **_sizes(700)), spellings)
    return _without_added_bytes(tokenizer)


def _sentencepiece_pieces(spellings: tuple[str, ...]) -> Tokenizer:
    """Unigram: every tag is a piece, and a likelier one than its characters."""
    words = [f"{_SPACE}answer", "path", "er", _SPACE]
    vocabulary = [("<unk>", 0.0), *((byte, -20.0) for byte in _BYTES)]
    vocabulary += [(piece, -8.0) for piece in (*_ASCII, *words)]
    vocabulary += [(spelling, -1.0) for spelling in spellings]
    tokenizer = Tokenizer(models.Unigram(vocabulary, 0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def _words(spellings: tuple[str, ...]) -> Tokenizer:
    """Compatibility forms and capitals are folded, so much other text becomes a tag."""
    tokenizer = _plain_words(spellings)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    return tokenizer


def _plain_words(spellings: tuple[str, ...]) -> Tokenizer:
    known = dict.fromkeys(["<unk>", *_ASCII, "the", "answer", *spellings])
    vocabulary = {word: index for index, word in enumerate(known)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


_BUILDERS: dict[str, Callable[[tuple[str, ...]], Tokenizer]] = {
    "byte-level BPE": _byte_level,
    "SentencePiece BPE": _sentencepiece_merges,
    "SentencePiece Unigram": _sentencepiece_pieces,
    "words": _plain_words,
    "words, folded": _words,
}
KINDS = tuple(_BUILDERS)
TELLS_ANY_TEXT = KINDS[:3]


@cache
def raw(kind: str, dialect: str) -> Tokenizer:
    """The tokenizer as the library has it, control tokens within reach of any text."""
    spellings = controls(dialect)
    tokenizer = _BUILDERS[kind](spellings)
    normalized = kind == "words, folded"  # there, the library looks for tags in folded text
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=normalized) for name in ("<unk>", *spellings)]
    )
    return tokenizer


@cache
def tokenizer(kind: str, dialect: str) -> TextTokenizer:
    return TextTokenizer(raw(kind, dialect).to_str())


@cache
def control_ids(kind: str, dialect: str) -> frozenset[int]:
    """By name from the library, not from what is tested."""
    known = raw(kind, dialect)
    return frozenset(known.token_to_id(name) for name in controls(dialect))


def _sizes(size: int) -> dict[str, object]:
    return {"vocab_size": size, "show_progress": False}


def _train(tokenizer: Tokenizer, trainer: object, spellings: tuple[str, ...]) -> None:
    """Tags stand between many characters, so that they are merged by themselves."""
    told = [f"{before}{name}{before}" for name in spellings for before in string.ascii_letters]
    tokenizer.train_from_iterator([*told, _TEXT], trainer)


def _without_added_bytes(tokenizer: Tokenizer) -> Tokenizer:
    """Bytes are ordinary entries of the vocabulary."""
    definition = json.loads(tokenizer.to_str())
    definition["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(definition))
