"""Every documented value of the chart, other values it may have, and misspellings of its key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.deploy.helm import CHART

Schema = dict[str, Any]
_EXAMPLES = {
    "^[0-9.]+[A-Za-z]*$": "7",
    "^[0-9a-fA-F.:]+/[0-9]+$": "10.99.0.0/16",
    r"^\d+(-\d+)?$": "3-9",
}


class Leaf(NamedTuple):
    """A value by its path, and others in its place."""

    path: tuple[str, ...]
    others: list[Any]

    @property
    def name(self) -> str:
        return ".".join(self.path)


def schema() -> Schema:
    found: Schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    return found


def leaves() -> list[Leaf]:
    """All of them; the keys of `models` are those of `worker`."""
    whole = schema()
    return list(_walk(whole, whole["definitions"], ()))


def _walk(node: Schema, definitions: Schema, path: tuple[str, ...]) -> Iterator[Leaf]:
    node = _resolved(node, definitions)
    if "properties" in node:
        for key, child in node["properties"].items():
            yield from _walk(child, definitions, (*path, key))
    elif path != ("models",):
        yield Leaf(path, list(_others(node, definitions)))


def _others(node: Schema, definitions: Schema) -> Iterator[Any]:
    """Values that the schema allows."""
    node = _resolved(node, definitions)
    if "anyOf" in node:
        node = {**node, **_resolved(node["anyOf"][0], definitions)}
    default = node.get("default")
    kinds = node.get("type", "object")
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if "enum" in node:
        yield from (value for value in node["enum"] if value not in (default, ""))
    elif kind == "boolean":
        yield from (True, False)  # a file of values may have turned it on
    elif kind in ("integer", "number"):
        yield from _numbers(node, default)
    elif kind == "array":
        item = _resolved(node.get("items", {"type": "string"}), definitions)
        yield [next(iter(_others(item, definitions)))]
    elif kind == "object":
        yield _object(node, definitions)
    else:
        yield _EXAMPLES.get(node.get("pattern", ""), "mutated")


def _numbers(node: Schema, default: float | None) -> Iterator[float]:
    least = node.get("minimum", node.get("exclusiveMinimum", 0))
    most = node.get("maximum", node.get("exclusiveMaximum", 1 << 20))
    never = {node.get("exclusiveMinimum"), node.get("exclusiveMaximum")}
    tries = [(default or 0) + 1, (default or 0) / 2, least + 1, most - 1, (least + most) / 2, least]
    for value in tries:  # the default may be among them: a file of values may have another one
        number = int(value) if node["type"] == "integer" else float(value)
        if number not in never and least <= number <= most:
            yield number


def _object(node: Schema, definitions: Schema) -> Any:
    if "properties" in node:
        return {
            key: next(iter(_others(child, definitions)))
            for key, child in node["properties"].items()
        }
    inner = node.get("additionalProperties", {})
    return {"mutated": next(iter(_others(inner, definitions))) if inner not in (True, {}) else "x"}


def _resolved(node: Schema, definitions: Schema) -> Schema:
    if "$ref" in node:
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**definitions[node["$ref"].rpartition("/")[2]], **rest}
    if len(node.get("allOf", [])) == 1:
        return _resolved({**node, **node["allOf"][0]}, definitions)
    return node


def at(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Values with only this one in them."""
    made: Any = value
    for key in reversed(path):
        made = {key: made}
    found: dict[str, Any] = made
    return found


def misspelt() -> tuple[dict[str, Any], set[str]]:
    """Values in which every documented key is misspelt, and the keys as they stand there."""
    whole = schema()
    keys: set[str] = set()
    values = _misspelt(whole, whole["definitions"], keys)
    block = _misspelt(whole["definitions"]["Worker"], whole["definitions"], keys)
    return {**values, "models": {"tiny": block}}, keys


def _misspelt(node: Schema, definitions: Schema, keys: set[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, child in _resolved(node, definitions)["properties"].items():
        wrong = f"{key}Q"
        keys.add(wrong)
        made[wrong] = "x"
        if "properties" in _resolved(child, definitions):
            made[key] = _misspelt(child, definitions, keys)
    return made
