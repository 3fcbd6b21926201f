"""Whether a tokenizer.json and the weights beside it are of one model.

Knows which token has which id. Must not know how text becomes tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer

from multiverse_shared.errors import InvalidModel
from multiverse_worker.models.directory import ModelDirectory

# Converters respell a few tokens (bytes, placeholders); another model's differ nearly all.
_MOST_RESPELT = 0.01


def check_tokens(model: ModelDirectory, spellings: Sequence[str | None]) -> None:
    """`spellings` are those of the weights by id, None where they don't say.

    A tokenizer may know fewer tokens than the weights have rows, which are often padded.
    InvalidModel when it knows more, or other ones.
    """
    path = model.path / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise InvalidModel(f"{path} cannot be read: {error}", field="model") from None
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if largest >= len(spellings):
        raise InvalidModel(
            f"{path} has token ids up to {largest}, but the weights have rows for "
            f"{len(spellings)} tokens; they are not of one model, or tokens were added to the "
            "tokenizer and not to the weights",
            field="model",
        )
    own = tokenizer.get_vocab(with_added_tokens=False)
    told = {index: said for index, said in enumerate(spellings) if said is not None}
    other = sum(1 for index, said in told.items() if own.get(said) != index)
    if other > _MOST_RESPELT * len(told):
        raise InvalidModel(
            f"{path} and the vocabulary of {model.gguf} give {other} of {len(told)} ids to "
            "different tokens; they are not of one model: fetch the tokenizer.json that belongs "
            "to the weights",
            field="model",
        )
