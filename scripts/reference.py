"""Writes build/reference: the HTTP API from its OpenAPI schema, the gRPC API from its .proto files.

python scripts/reference.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from multiverse_router.app import create_app
from multiverse_router.settings import RouterSettings

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "reference"
PROTOS = ROOT / "protos" / "multiverse_protos"
FIELD = re.compile(
    r"(?:(?P<label>optional|repeated) )?(?P<type>map<[^>]+>|[\w.]+) (?P<name>\w+) = (?P<number>\d+)"
)
OPENS = re.compile(r"(?P<kind>service|message|enum|oneof) (?P<name>\w+) {")
RPC = re.compile(r"rpc (\w+)\((.*?)\) returns \((.*?)\)")


# -- HTTP --------------------------------------------------------------------------------------


def http(schema: dict[str, Any]) -> Iterator[str]:
    yield "# HTTP API: reference"
    yield ""
    yield "Made from the OpenAPI schema (`/openapi.json` of a router) by `scripts/reference.py`."
    yield "`docs/api.md` says what it means, and has events, errors and headers."
    schemas = schema["components"]["schemas"]
    used: list[str] = []
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield f"\n## `{method.upper()} {path}`\n"
            if operation.get("description"):
                yield operation["description"] + "\n"
            for parameter in operation.get("parameters", []):
                name, place = parameter["name"], parameter["in"]
                yield f"- `{name}` in the {place}: {kind(parameter['schema'])}"
            body = operation.get("requestBody")
            if body:
                name = reference(body["content"]["application/json"]["schema"])
                used.append(name)
                yield from fields(schemas[name])
    for name in nested(used, schemas):
        yield f"\n## {name}\n"
        yield from fields(schemas[name])


def fields(model: dict[str, Any]) -> Iterator[str]:
    if "enum" in model:
        yield "One of " + ", ".join(f"`{value}`" for value in model["enum"]) + "."
        return
    if "properties" not in model:
        yield kind(model).capitalize() + "."
        return
    yield "| field | type | default | |"
    yield "| --- | --- | --- | --- |"
    required = model.get("required", [])
    names = sorted(model["properties"], key=lambda name: name not in required)
    for name in names:
        field = model["properties"][name]
        default = json.dumps(field["default"]) if field.get("default") is not None else "-"
        default = "required" if name in required else f"`{default}`" if default != "-" else "-"
        yield f"| `{name}` | {kind(field)} | {default} | {field.get('description', '')} |"


def kind(field: dict[str, Any]) -> str:
    """The type of a field, and its bounds."""
    if "$ref" in field:
        return reference(field)
    if "anyOf" in field:
        kinds = [kind(one) for one in field["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if field.get("type") == "array":
        return f"list of {kind(field['items'])}"
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {field[name]:g}" for name, sign in signs.items() if name in field]
    return " ".join([field.get("type", "any"), *bounds])


def reference(field: dict[str, Any]) -> str:
    return str(field["$ref"]).rpartition("/")[2]


def nested(names: list[str], schemas: dict[str, Any]) -> list[str]:
    """What the bodies called so refer to, and what that does."""
    found: list[str] = []
    waiting = list(names)
    while waiting:
        text = json.dumps(schemas[waiting.pop(0)])
        for name in re.findall(r'"#/components/schemas/(\w+)"', text):
            if name not in found and name not in names:
                found.append(name)
                waiting.append(name)
    return sorted(found)


# -- gRPC --------------------------------------------------------------------------------------


def grpc(text: str) -> Iterator[str]:
    """A .proto file as a page: comments stand before what they are about."""
    said: list[str] = []
    package, open_oneof = "", False
    for line in (line.strip() for line in text.splitlines()):
        if line.startswith("//"):
            said.append(line.removeprefix("//").strip())
            continue
        told, comment = " ".join(said).strip(), said
        said = []
        if line.startswith("package "):
            package = line.removeprefix("package ").rstrip(";")
            yield f"# `{package}`: reference\n"
            yield "Made from its .proto file by `scripts/reference.py`.\n"
            yield "\n".join(comment)
        elif found := OPENS.match(line):
            open_oneof = found["kind"] == "oneof"
            if not open_oneof:
                yield f"\n## {found['kind']} `{found['name']}`\n"
                yield from [told, ""] if told else []
                head = "call" if found["kind"] == "service" else "field"
                yield f"| {head} | | |\n| --- | --- | --- |"
        elif found := RPC.match(line):
            yield f"| `{found[1]}` | `{found[2]}` -> `{found[3]}` | {told} |"
        elif (found := FIELD.match(line)) and not line.startswith(("syntax", "option ")):
            label = "one of" if open_oneof else found["label"] or ""
            kind_ = f"{label} `{found['type']}`".strip()
            yield f"| `{found['name']}` = {found['number']} | {kind_} | {told} |"
        elif found := re.match(r"(\w+) = (\d+);", line):
            yield f"| `{found[1]}` = {found[2]} | | {told} |"
        elif line == "}":
            open_oneof = False
        elif not line:
            said = comment if not package else []


def pages() -> dict[str, str]:
    """By file name."""
    schema = create_app(RouterSettings()).openapi()
    made = {"http.md": http(schema)}
    for name in ("generate", "engine"):
        proto = PROTOS / name / "v1" / f"{name}.proto"
        made[f"grpc-{name}.md"] = grpc(proto.read_text("utf-8"))
    return {name: "\n".join(lines).rstrip("\n") + "\n" for name, lines in made.items()}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
