"""values.yaml: every value with its default and what it means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from deploy.generator.described import NONE, default_of
from deploy.generator.processes import PROCESSES, Process
from deploy.generator.values.chart import ChartValues

HEAD = "# Made by `make settings` from deploy/generator/values and the settings classes."
MODELS = """\
  # tiny:
  #   source:
  #     pvc: {claim: models, path: multiverse-tiny}
"""


def values_text() -> str:
    return "\n".join([HEAD, *_lines(ChartValues(), "")]) + "\n"


def _lines(values: BaseModel, indent: str) -> Iterator[str]:
    for name, info in type(values).model_fields.items():
        value = getattr(values, name)
        key = info.alias or name
        if not indent:
            yield ""
        yield from _comment(info, value, indent)
        if isinstance(value, BaseModel):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        elif key == "models":
            yield f"{indent}{key}: {{}}"
            yield MODELS.rstrip()
        else:
            yield f"{indent}{key}: {json.dumps(plain(value), ensure_ascii=False)}"
            process = _process_of(key, type(values).__name__)
            if process:
                yield from _settings(process, indent + "  ", secret=key == "secretSettings")


def _comment(info: FieldInfo, value: Any, indent: str) -> Iterator[str]:
    text = info.description
    if text is None and isinstance(value, BaseModel):
        text = (type(value).__doc__ or "").splitlines()[0]
    if text:
        yield f"{indent}# {text}"


def _settings(process: Process, indent: str, *, secret: bool) -> Iterator[str]:
    for name, info in process.free(secret=secret):
        default = default_of(info)
        given = "{secret: NAME, key: KEY}" if secret else "" if default == NONE else default
        said = info.description or name.replace("_", " ")
        yield f"{indent}# {name}: {given}".rstrip() + f"  # {said}"


def _process_of(key: str, owner: str) -> Process | None:
    if key not in ("settings", "secretSettings"):
        return None
    return next(process for process in PROCESSES if owner.lower() == process.name)


def plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(by_alias=True, exclude_none=True)
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
