"""`make chart`: all that can be said of chart, compose file and Dockerfiles without a cluster.

One JSON line last; the status is 1 when anything failed, and `failures` says what.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml
from deploy.generator.__main__ import differing

from tests.deploy import compose, dockerfiles
from tests.deploy.helm import ROOT, VALUE_FILES, Helm, HelmError, Object, helms, objects
from tests.deploy.leaves import leaves, misspelt
from tests.deploy.mutation import Renders
from tests.deploy.policies import violations
from tests.deploy.resources import KUBERNETES, invalid, invalid_custom, is_custom

Failures = dict[str, list[str]]


def rendered(found: list[Helm], failures: Failures) -> dict[Path, list[Object]]:
    """Renders of all value files by Helm 4, after both have linted and rendered the same."""
    made: dict[Path, list[Object]] = {}
    for file in VALUE_FILES:
        try:
            texts = [helm.template(file) for helm in found]
            for helm in found:
                helm.lint(file)
        except HelmError as error:
            failures["lint"].append(f"{file.name}: {error}")
            continue
        if len({yaml.safe_dump(objects(text)) for text in texts}) > 1:
            failures["versions_differ"].append(file.name)
        made[file] = objects(texts[-1])
    return made


def packaged(helm: Helm, folder: Path) -> Iterator[str]:
    """The archive renders what the folder does."""
    archive = helm.package(folder)
    for file in VALUE_FILES:
        if Helm(helm.program, archive).template(file) != helm.template(file):
            yield f"{helm.version} {file.name}: the archive renders something else"
    archive.unlink()


def unknown_keys(helm: Helm, folder: Path) -> Iterator[str]:
    """Misspelt keys that Helm takes, or refuses without their names."""
    values, keys = misspelt()
    given = folder / "misspelt.yaml"
    given.write_text(yaml.safe_dump(values), "utf-8")
    try:
        helm.template(given)
        yield f"{helm.version} takes misspelt keys"
    except HelmError as error:
        yield from (f"{helm.version}: {key}" for key in sorted(keys) if key not in str(error))


def unique(renders: dict[Path, list[Object]]) -> list[Object]:
    """Every object once: most are the same in many files."""
    found = {json.dumps(one, sort_keys=True): one for made in renders.values() for one in made}
    return list(found.values())


def check(folder: Path, *, mutations: bool) -> tuple[dict[str, object], Failures]:
    """What was looked at, and what is wrong."""
    failures: Failures = {"lint": [], "versions_differ": []}
    found = helms()
    renders = rendered(found, failures)
    distinct = unique(renders)
    custom = [one for one in distinct if is_custom(one)]
    failures["settings"] = differing(ROOT)
    failures["package"] = [wrong for helm in found for wrong in packaged(helm, folder)]
    failures["unknown_keys"] = [wrong for helm in found for wrong in unknown_keys(helm, folder)]
    failures["kubernetes"] = [
        wrong for version in KUBERNETES for wrong in invalid(distinct, version)
    ]
    failures["custom_resources"] = invalid_custom(custom)
    failures["policies"] = [
        f"{file.name}: {wrong}" for file, made in renders.items() for wrong in violations(made)
    ]
    failures["compose"] = list(compose.wrong())
    failures["dockerfiles"] = list(dockerfiles.wrong())
    documented = leaves()
    if mutations:
        failures["without_effect"] = Renders(found[-1], folder).without_effect(documented)
    seen = {
        "helm": [helm.version for helm in found],
        "kubernetes": list(KUBERNETES),
        "value_files": len(VALUE_FILES),
        "objects": sum(map(len, renders.values())),
        "distinct_objects": len(distinct),
        "custom_resources": len(custom),
        "values": len(documented),
        "misspelt_keys": len(misspelt()[1]),
        "mutations": len(documented) if mutations else 0,
        "compose_profiles": len(compose.PROFILES),
        "dockerfiles": len(dockerfiles.DOCKERFILES),
    }
    return seen, {name: wrong for name, wrong in failures.items() if wrong}


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.deploy", description=__doc__)
    parser.add_argument("--no-mutations", action="store_true", help="leave out what takes minutes")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        seen, failures = check(Path(folder), mutations=not options.no_mutations)
    told = {**seen, "seconds": round(time.monotonic() - began, 1), "failures": failures}
    print(json.dumps({"ok": not failures, **told}))
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
