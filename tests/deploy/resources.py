"""Objects against schemas: Kubernetes' own in strict mode, and those of custom resources."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate

from tests.deploy.helm import TOOLS, Object
from tests.deploy.objects import name_of

KUBERNETES = ("1.33", "1.37")
CUSTOM = {
    "cert-manager.io/v1": "@kubernetes-models/cert-manager",
    "external-secrets.io/v1": "@kubernetes-models/external-secrets",
    "gateway.networking.k8s.io/v1": "@kubernetes-models/gateway-api",
    "keda.sh/v1alpha1": "@kubernetes-models/keda",
    "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator",
}


def is_custom(found: Object) -> bool:
    return found["apiVersion"] in CUSTOM


def invalid(rendered: list[Object], version: str) -> Iterator[str]:
    """Kubernetes' own objects that `version` would not take, unknown fields included."""
    for found in rendered:
        if is_custom(found):
            continue
        try:
            kubernetes_validate.validate(found, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{name_of(found)} in {version}: {error.message} at {list(error.path)}"


def invalid_custom(rendered: list[Object]) -> list[str]:
    """Custom resources that their definitions would not take.

    Their validators pass unknown fields by, as a cluster drops them; TypeScript's compiler, which
    reads the same definitions as types, does not.
    """
    found = [one for one in rendered if is_custom(one)]
    folder = TOOLS / "validators"
    (folder / "validate.mjs").write_text(_program(found, "validate"), "utf-8")
    (folder / "types.ts").write_text(_program(found, "types"), "utf-8")
    compiler = ["npx", "--no-install", "tsc", "--noEmit", "--skipLibCheck", "--strict"]
    compiler += ["--module", "nodenext", "--moduleResolution", "nodenext", "types.ts"]
    said = [_run(["node", "validate.mjs"], folder), _run(compiler, folder)]
    return [line for text in said for line in text.splitlines() if line.strip()]


def _program(found: list[Object], what: str) -> str:
    """Makes each object with the class of its kind."""
    lines: list[str] = []
    for number, one in enumerate(found):
        group, _, version = one["apiVersion"].partition("/")
        kind = one["kind"]
        name = json.dumps(name_of(one))
        module = f"{CUSTOM[one['apiVersion']]}/{group}/{version}/{kind}"
        data = json.dumps({key: one[key] for key in one if key not in ("apiVersion", "kind")})
        lines.append(f'import {{ {kind} as K{number} }} from "{module}";')
        if what == "types":
            lines.append(f"new K{number}({data}); // {name}")
        else:
            lines.append(f"try {{ new K{number}({data}).validate(); }}")
            lines.append(f'catch (error) {{ console.log({name} + ": " + error.message); }}')
    return "\n".join([*lines, "export {};", ""])


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr
