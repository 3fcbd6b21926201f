"""A model file in llama.cpp: loaded, or refused with what llama.cpp said and the remedy.

Knows what fork and join need of a model: attention from any token to any earlier one, with the
keys and values of each token in cells of their own.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from pathlib import Path
from typing import Any

import llama_cpp

from multiverse_shared.errors import InvalidModel

_ERROR_LEVEL = 4
_SEVERAL_POSITIONS = (
    llama_cpp.LLAMA_ROPE_TYPE_MROPE,
    llama_cpp.LLAMA_ROPE_TYPE_IMROPE,
    llama_cpp.LLAMA_ROPE_TYPE_VISION,
)
_REMEDIES = {
    "unknown model architecture": "serve another model; this llama.cpp does not know it",
    "file bounds": "the file is cut short; fetch it again",
    "failed to read": "the file is cut short; fetch it again",
    "magic": "it is no GGUF file; `multiverse model export DIR` makes one",
}
_failures: deque[str] = deque(maxlen=8)  # what was said while a file was loaded
_loading = False


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _log(level: int, text: bytes, _: Any) -> None:
    if level != _ERROR_LEVEL:
        return
    said = text.decode("utf-8", "replace")
    if _loading:
        _failures.append(said.strip())
    else:
        sys.stderr.write(said)


def load_model(path: Path, *, only_vocabulary: bool = False) -> Any:
    """The library's model pointer, to be freed by the caller. Its errors go to stderr later on.

    InvalidModel for a file that is missing, cut or of an architecture llama.cpp doesn't know,
    and for a model whose paths could not be joined.
    """
    global _loading
    llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = only_vocabulary
    _failures.clear()
    _loading = True
    try:
        model = llama_cpp.llama_model_load_from_file(str(path).encode(), parameters)
    finally:
        _loading = False
    if not model:
        said = "; ".join(_failures)
        remedy = next((f"; {do}" for words, do in _REMEDIES.items() if words in said), "")
        raise InvalidModel(f"llama.cpp can't load {path}{remedy} ({said})", field="model")
    if not only_vocabulary and (lack := _lack(model)):
        llama_cpp.llama_model_free(model)
        raise InvalidModel(
            f"{path} {lack}; paths can't be joined in it. Serve a model with full attention "
            "in every layer, such as Llama, Qwen2 or Qwen3",
            field="model",
        )
    return model


def vocabulary(path: Path) -> list[str | None]:
    """Spelling of each token id in the file; None for tokens that aren't plain text.

    All None when the file carries no vocabulary.
    """
    model = load_model(path, only_vocabulary=True)
    try:
        tokens = llama_cpp.llama_model_get_vocab(model)
        count = int(llama_cpp.llama_vocab_n_tokens(tokens))
        if llama_cpp.llama_vocab_type(tokens) == llama_cpp.LLAMA_VOCAB_TYPE_NONE:
            return [None] * count
        return [
            llama_cpp.llama_vocab_get_text(tokens, index).decode("utf-8", "replace")
            if llama_cpp.llama_vocab_get_attr(tokens, index) & llama_cpp.LLAMA_TOKEN_ATTR_NORMAL
            else None
            for index in range(count)
        ]
    finally:
        llama_cpp.llama_model_free(model)


def _lack(model: Any) -> str:
    """What the model lacks for fork and join; empty if nothing."""
    if llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model):
        return "keeps a recurrent state"
    if window := llama_cpp.llama_model_n_swa(model):
        return f"attends within a sliding window of {window} tokens"
    if llama_cpp.llama_model_has_encoder(model) or llama_cpp.llama_model_is_diffusion(model):
        return "is no plain decoder"
    if llama_cpp.llama_model_rope_type(model) in _SEVERAL_POSITIONS:
        return "gives a token several positions"
    return ""
