"""The expressions of deploy/observability, and the metrics that they name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml

FOLDER = Path(__file__).parents[3] / "deploy" / "observability"
RULES = sorted((FOLDER / "rules").glob("*.yaml"))
DASHBOARDS = sorted((FOLDER / "dashboards").glob("*.json"))


def rules() -> list[dict[str, Any]]:
    """Recording and alert rules."""
    groups = [group for file in RULES for group in yaml.safe_load(file.read_text())["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> list[str]:
    """All of them: of rules and of panels."""
    found = [rule["expr"] for rule in rules()]
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text())["panels"]:
            found += [target["expr"] for target in panel["targets"]]
    return [text.replace("$__rate_interval", "1m") for text in found]


def metrics(expression: str) -> set[str]:
    """The names in an expression. ValueError when it can't be parsed."""
    return set(_names(promql_parser.parse(expression)))


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name
        return
    for part in ("expr", "lhs", "rhs", "vector_selector"):
        if hasattr(node, part):
            yield from _names(getattr(node, part))
    for argument in getattr(node, "args", ()):
        yield from _names(argument)
