"""A model directory in Hugging Face form, as the worker serves it.

Knows file names and digests. Must not know what the text files mean: the router reads them.
"""

from __future__ import annotations

import hashlib
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
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelDirectory:
    """Checked on creation: InvalidModel names what is missing and the remedy."""

    path: Path

    def __post_init__(self) -> None:
        if not self.path.is_dir():
            raise InvalidModel(f"{self.path} is not a directory with a model", field="model")
        for name in (*REQUIRED_FILES, "config.json"):
            if not (self.path / name).is_file():
                raise InvalidModel(
                    f"model directory {self.path} has no {name}; "
                    "see docs/models.md for what a model directory holds",
                    field="model",
                )

    @property
    def name(self) -> str:
        return self.path.resolve().name

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
        """The safetensors files."""
        return weights_in(self.path)

    @property
    def weights_digest(self) -> str:
        """SHA-256 over the configuration and the weights."""
        state = hashlib.sha256()
        for path in (self.path / "config.json", *self.weights):
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    state.update(block)
        return state.hexdigest()


def weights_in(path: Path) -> list[Path]:
    """The safetensors files of a directory; InvalidModel when there are none."""
    found = sorted(path.glob("*.safetensors"))
    if not found:
        raise InvalidModel(f"model directory {path} has no *.safetensors", field="model")
    return found
