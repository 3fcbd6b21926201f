"""Small real tokenizers that carry the ten tags as special tokens."""

from __future__ import annotations

import json
from functools import cache

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from multiverse_shared.dialect import load_dialect

TAGS = tuple(load_dialect("multiverse").tags.values())
EOS = "<eos>"
ALPHABET = "".join(map(chr, range(32, 127))) + "\n"
_SPECIAL = [AddedToken(token, special=True, normalized=False) for token in (*TAGS, EOS)]
_SENTENCES = (
    "The answer is forty two, and here is why it is so.",
    "First we look at the left part, then at the right part of the sum.",
    "Both paths agree: 12 + 30 = 42. Done!",
)


@cache
def characters() -> str:
    """One token per printable ASCII character; others are unknown."""
    vocab = {character: index for index, character in enumerate(ALPHABET)}
    tokenizer = Tokenizer(models.WordLevel(vocab | {"\ufffd": len(vocab)}, unk_token="\ufffd"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(_SPECIAL)
    return str(tokenizer.to_str())


@cache
def spelled() -> str:
    """The same without tokens for the tags: each is spelled with its characters."""
    tokenizer = Tokenizer.from_str(characters())
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] == EOS]
    return json.dumps(data)


@cache
def bytes_merged() -> str:
    """Byte-level BPE with a few merges: any text can be told, letters of a word run together."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_SENTENCES, trainer)
    return str(tokenizer.to_str())


@cache
def words() -> str:
    """Its own vocabulary spells every tag as a word, as well as every character."""
    known = ["?", *ALPHABET, "two", "words", *TAGS, EOS]
    vocab = {word: index for index, word in enumerate(dict.fromkeys(known))}
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(_SPECIAL)
    return str(tokenizer.to_str())
