"""A model directory in Hugging Face form, as the worker serves it.

Weights are safetensors, or one GGUF file in their place. Knows file names and digests. Must not
know what the text files mean: the router reads them.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from multiverse_shared.errors import InvalidModel

REQUIRED_FILES = ("tokenizer.json", "multiverse.json")
TEXT_FILES = (
    *REQUIRED_FILES,
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)
_INDEX = "model.safetensors.index.json"
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelDirectory:
    """Checked on creation: InvalidModel names what is missing and the remedy.

    `given` is a GGUF file, anywhere, to serve in place of the weights in the directory.
    """

    path: Path
    given: Path | None = None
    has_weights: bool = True  # without: only what turns text into ids and back

    def __post_init__(self) -> None:
        if not self.path.is_dir():
            raise InvalidModel(f"{self.path} is not a directory with a model", field="model")
        gguf = self.gguf if self.has_weights else None
        config = () if gguf or not self.has_weights else ("config.json",)
        for name in (*REQUIRED_FILES, *config):
            if not (self.path / name).is_file():
                raise InvalidModel(
                    f"model directory {self.path} has no {name}; {_remedy(name, gguf)}",
                    field="model",
                )

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def gguf(self) -> Path | None:
        """The GGUF file that is served as it is; None when safetensors are converted."""
        if self.given:
            return _checked(self.given)
        found = sorted(self.path.glob("*.gguf"))
        if not found or any(self.path.glob("*.safetensors")):
            return None
        if len(found) > 1 and not _SPLIT.search(found[0].name):
            raise InvalidModel(
                f"model directory {self.path} has {len(found)} GGUF files; name the one to "
                "serve in MULTIVERSE_WORKER_WEIGHTS",
                field="weights",
            )
        return _checked(found[0])

    @property
    def text_files(self) -> dict[str, bytes]:
        """The files that turn text into ids and back, by name."""
        found = {name: self.path / name for name in TEXT_FILES}
        return {name: path.read_bytes() for name, path in found.items() if path.is_file()}

    @property
    def files_digest(self) -> str:
        """SHA-256 over names and contents of the text files."""
        state = hashlib.sha256()
        for name, data in sorted(self.text_files.items()):
            state.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
        return state.hexdigest()

    @property
    def weights(self) -> list[Path]:
        """The safetensors files: those of the index, or all when there is none."""
        return weights_in(self.path)

    @property
    def weights_digest(self) -> str:
        """SHA-256 over the configuration and the weights."""
        gguf = self.gguf
        state = hashlib.sha256()
        for path in [gguf] if gguf else [self.path / "config.json", *self.weights]:
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    state.update(block)
        return state.hexdigest()


def _checked(gguf: Path) -> Path:
    if not gguf.is_file():
        raise InvalidModel(f"there is no GGUF file {gguf}", field="weights")
    if _SPLIT.search(gguf.name):
        raise InvalidModel(
            f"{gguf} is part of a split GGUF; join the parts with `llama-gguf-split --merge`",
            field="weights",
        )
    return gguf


def _remedy(name: str, gguf: Path | None) -> str:
    if gguf and name == "tokenizer.json":
        return (
            f"the tokenizer inside {gguf.name} is not read. Fetch tokenizer.json and "
            "tokenizer_config.json from where the model was published, or let transformers "
            "write them: AutoTokenizer.from_pretrained(folder, gguf_file=name)"
            ".save_pretrained(directory)"
        )
    return "see docs/models.md for what a model directory holds"


def weights_in(path: Path) -> list[Path]:
    """The safetensors files of a directory: those of the index, or all when there is none."""
    if (path / _INDEX).is_file():
        return _indexed(path)
    found = sorted(path.glob("*.safetensors"))
    if not found:
        raise InvalidModel(
            f"model directory {path} has no *.safetensors and no *.gguf", field="model"
        )
    return found


def _indexed(path: Path) -> list[Path]:
    try:
        names = set(json.loads((path / _INDEX).read_text("utf-8"))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidModel(f"{path / _INDEX} is no index", field="model") from None
    missing = [name for name in sorted(names) if not (path / name).is_file()]
    if missing:
        raise InvalidModel(
            f"model directory {path} has no {', '.join(missing)}, which its index "
            "names; fetch what is missing",
            field="model",
        )
    return [path / name for name in sorted(names)]
