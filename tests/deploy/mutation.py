"""Whether a value has an effect: some render differs when it is another one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.helm import VALUE_FILES, Helm, HelmError
from tests.deploy.leaves import Leaf, at

FIRST = "everything.yaml"
AT_ONCE = 2


class Renders:
    """Renders of all value files; the fullest file is tried first."""

    def __init__(self, helm: Helm, folder: Path) -> None:
        self._helm = helm
        self._folder = folder
        self._files = sorted(VALUE_FILES, key=lambda file: file.name != FIRST)
        self._plain = {file: helm.template(file) for file in self._files}

    def without_effect(self, leaves: list[Leaf]) -> list[str]:
        """Names of values that change nothing anywhere."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = pool.map(self._changes, leaves)
            return [leaf.name for leaf, changes in zip(leaves, found, strict=True) if not changes]

    def _changes(self, leaf: Leaf) -> bool:
        number = 0
        for file in self._files:
            for values in self._tries(leaf, file):
                number += 1
                given = self._folder / f"{leaf.name}-{number}.yaml"
                given.write_text(yaml.safe_dump(values), "utf-8")
                try:
                    if self._helm.template(file, given) != self._plain[file]:
                        return True
                except HelmError as error:
                    if "additional" in str(error):
                        raise
                    continue  # refused beside the other values of this file
        return False

    def _tries(self, leaf: Leaf, file: Path) -> Iterator[dict[str, Any]]:
        for other in leaf.others:
            yield at(leaf.path, other)
            if leaf.path[0] == "worker" and file.name != FIRST:
                for model in yaml.safe_load(file.read_text("utf-8"))["models"]:
                    yield at(("models", model, *leaf.path[1:]), other)
