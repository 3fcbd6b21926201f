"""What `multiverse model check` finds in a directory, as a table or as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rich.table import Table
from rich.text import Text

from multiverse_protos.engine.v1 import engine_pb2 as pb
from multiverse_router.model import eos_of, json_of, servable, template_of
from multiverse_router.settings import Positions
from multiverse_router.template_check import check_template
from multiverse_shared.dialect import Dialect
from multiverse_shared.errors import MultiverseError
from multiverse_shared.grammar import Grammar
from multiverse_shared.model_card import ModelCard
from multiverse_shared.model_check import (
    Finding,
    Verdict,
    check_eos,
    check_offsets,
    check_sizes,
    check_tags,
    check_text,
)
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_worker.models.checkpoint import Checkpoint
from multiverse_worker.models.directory import REQUIRED_FILES, TEXT_FILES, weights_in
from multiverse_worker.models.vocabulary_rows import vocabulary_tensors

_COLOURS = {Verdict.OK: "green", Verdict.NOTE: "yellow", Verdict.REFUSED: "red"}
_INDEX = "model.safetensors.index.json"
_ANY_ENGINE = pb.GetModelInfoResponse(capabilities=[pb.CAPABILITY_FREE_POSITIONS])
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ModelReport:
    """All findings; a check that needs what another one found missing is left out."""

    directory: Path
    findings: list[Finding]

    @classmethod
    def of(cls, directory: Path) -> ModelReport:
        examination = _Examination(directory)
        examination.run()
        return cls(directory, examination.findings)

    @property
    def passed(self) -> bool:
        return all(finding.verdict is not Verdict.REFUSED for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        findings = [
            {key: value for key, value in asdict(finding).items() if value is not None}
            for finding in self.findings
        ]
        return {"model": str(self.directory), "passed": self.passed, "findings": findings}

    def as_table(self) -> Table:
        verdict = "can be served" if self.passed else "cannot be served as it is"
        table = Table("check", "", "finding", title=f"{self.directory} {verdict}")
        told: set[str] = set()  # many tags have one remedy
        for finding in self.findings:
            message = Text(finding.message)
            if finding.remedy and finding.remedy not in told:
                told.add(finding.remedy)
                message.append(f"\nremedy: {finding.remedy}", style="italic")
            style = _COLOURS[finding.verdict]
            table.add_row(finding.check, Text(finding.verdict.value, style=style), message)
        return table


class _Examination:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._remedy = f"multiverse model add-tags {shlex.quote(str(directory))} --out NEW_DIR"
        self.findings: list[Finding] = []

    def run(self) -> None:
        if not self._files():
            return
        files = {
            name: (self._directory / name).read_bytes()
            for name in (*TEXT_FILES, "config.json")
            if (self._directory / name).is_file()
        }
        tokenizer = self._tokenizer()
        card = self._try("dialect", lambda: ModelCard.parse(files["multiverse.json"]))
        config = self._try("files", lambda: json_of(files, "tokenizer_config.json"))
        if card:
            self._say("dialect", f"{card.dialect.name}, prompt suffix {card.prompt_suffix!r}")
            self._try("dialect", partial(servable, card.dialect, _ANY_ENGINE, Positions.TRAINED))
            self.findings.append(check_offsets(card.dialect))
        if tokenizer and card:
            self._tags(card.dialect, tokenizer)
        if tokenizer:
            self._sizes(files, tokenizer)
        if tokenizer and card and config is not None:
            self._end(files, config, card.dialect, tokenizer)
        if config is not None:
            template = self._try("template", lambda: template_of(files, config))
            self.findings += check_template(template) if template else []

    def _files(self) -> bool:
        """Whether all that is needed is there; each file that is missing or broken is told."""
        before = len(self.findings)
        for name in ("config.json", *REQUIRED_FILES):
            if not (self._directory / name).is_file():
                own = name == "multiverse.json"
                remedy = self._remedy if own else "see docs/models.md for what a model holds"
                self._refuse("files", f"{self._directory} has no {name}", remedy)
        weights = self._try("files", self._weights)
        if weights is None or len(self.findings) > before:
            return False
        self._say("files", f"complete, {weights} of weights readable")
        return True

    def _weights(self) -> str:
        found = [Checkpoint.open(path) for path in weights_in(self._directory)]
        index = self._directory / _INDEX
        if index.is_file():
            places = json_of({_INDEX: index.read_bytes()}, _INDEX).get("weight_map", {})
            missing = set(places.values()) - {checkpoint.path.name for checkpoint in found}
            if missing:
                raise MultiverseError(f"{_INDEX} names {min(missing)}, which is not there")
        return f"{len(found)} file" + ("s" if len(found) > 1 else "")

    def _tokenizer(self) -> TextTokenizer | None:
        """The tokenizer, if text can be told with it."""
        loaded = self._try("tokenizer", lambda: TextTokenizer.from_directory(self._directory))
        if not loaded:
            return None
        found = check_text(loaded)
        self.findings.append(found)
        return None if found.verdict is Verdict.REFUSED else loaded

    def _tags(self, dialect: Dialect, tokenizer: TextTokenizer) -> None:
        found = check_tags(dialect, tokenizer, self._remedy)
        self.findings += found
        if all(finding.verdict is not Verdict.REFUSED for finding in found):
            self._try("tags", lambda: Grammar.bind(dialect, tokenizer))

    def _sizes(self, files: dict[str, bytes], tokenizer: TextTokenizer) -> None:
        def sizes() -> Finding:
            size = json_of(files, "config.json").get("vocab_size")
            if not isinstance(size, int):
                raise MultiverseError("config.json has no vocab_size")
            rows = {
                name: int(checkpoint.entries[name]["shape"][0])
                for name, checkpoint in vocabulary_tensors(self._directory).items()
            }
            return check_sizes(tokenizer.vocab_size, size, rows, self._remedy)

        found = self._try("vocabulary", sizes)
        self.findings += [found] if found else []

    def _end(
        self,
        files: dict[str, bytes],
        config: dict[str, Any],
        dialect: Dialect,
        tokenizer: TextTokenizer,
    ) -> None:
        eos = self._try(
            "end", lambda: eos_of(json_of(files, "generation_config.json"), config, tokenizer)
        )
        if eos:
            self.findings.append(check_eos(eos, dialect, tokenizer))

    def _try(self, check: str, ask: Callable[[], T]) -> T | None:
        """What `ask` returns, or nothing and a finding that says why."""
        try:
            return ask()
        except MultiverseError as error:
            self._refuse(check, error.message)
        return None

    def _say(self, check: str, message: str) -> None:
        self.findings.append(Finding(check, Verdict.OK, message))

    def _refuse(self, check: str, message: str, remedy: str | None = None) -> None:
        self.findings.append(Finding(check, Verdict.REFUSED, message, remedy=remedy))
