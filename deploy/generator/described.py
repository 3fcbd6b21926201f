"""A setting in the words of a table, and in JSON schema."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from deploy.generator.processes import Process

NONE = "-"


def default_of(info: FieldInfo) -> str:
    """`-` for nothing, `required`, or the value as an environment variable has it."""
    if info.default_factory is not None:
        return NONE
    if info.default is PydanticUndefined:
        return "required"
    return as_text(info.default)


def as_text(value: Any) -> str:
    """A value as an environment variable has it; `-` for nothing."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, Enum):
        value = value.value
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):  # a range
        least, most = value
        return str(least) if least == most else f"{least}-{most}"
    plain = to_jsonable_python(value)
    if isinstance(plain, str) and not plain.strip():
        return json.dumps(plain)
    return plain if isinstance(plain, str) else json.dumps(plain)


def settings_schema(process: Process) -> dict[str, Any]:
    """An object that may hold any free setting of `process`, and nothing else."""
    whole = process.settings.model_json_schema()
    properties = {}
    for name, info in process.free(secret=False):
        found = _plain(whole["properties"][name], whole.get("$defs", {}))
        found["description"] = info.description or name.replace("_", " ")
        properties[name] = found
    return {"type": "object", "additionalProperties": False, "properties": properties}


def secrets_schema(process: Process) -> dict[str, Any]:
    """An object that may name a key of a Secret for each secret setting of `process`."""
    properties = {
        name: {
            "type": "object",
            "additionalProperties": False,
            "required": ["secret", "key"],
            "properties": {"secret": {"type": "string"}, "key": {"type": "string"}},
            "description": info.description,
        }
        for name, info in process.free(secret=True)
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _plain(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Without references, titles, and the null that stands for what is left out."""
    found = dict(schema)
    if reference := found.pop("$ref", None):
        found = {**definitions[reference.rpartition("/")[2]], **found}
    if choices := found.pop("anyOf", None):
        given = [choice for choice in choices if choice.get("type") != "null"]
        if len(given) == 1:
            found = {**_plain(given[0], definitions), **found}
        else:
            found["anyOf"] = given
    for key in ("title", "description", "format", "writeOnly"):
        found.pop(key, None)
    if found.get("default") is None or found.get("type") == "array":
        found.pop("default", None)
    return found
