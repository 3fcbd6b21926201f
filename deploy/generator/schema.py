"""values.schema.json: what Helm checks values against, before anything is rendered."""

from __future__ import annotations

import json
from typing import Any

from deploy.generator.values.chart import ChartValues

DRAFT = "http://json-schema.org/draft-07/schema#"  # the one that Helm 3 and 4 read alike
_REFERENCE = "#/definitions/{model}"


def schema_text() -> str:
    made = ChartValues.model_json_schema(by_alias=True, ref_template=_REFERENCE)
    made["definitions"] = made.pop("$defs")
    return json.dumps({"$schema": DRAFT, **_strict(made)}, indent=1, ensure_ascii=False) + "\n"


def _strict(node: Any, *, names: bool = False) -> Any:
    """Without titles and defaults of whole objects; keys that no pattern allows are refused.

    `names`: the keys of `node` are names of properties, not keywords.
    """
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _strict(value) for name, value in node.items()}
    found = {
        key: _strict(value, names=key in ("properties", "definitions", "patternProperties"))
        for key, value in node.items()
        if key != "title" and not (key == "default" and isinstance(value, dict | list))
    }
    if "patternProperties" in found:
        found.setdefault("additionalProperties", False)
    return found
