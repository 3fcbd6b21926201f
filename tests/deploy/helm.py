"""The chart through a real Helm: lint, render, package."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "multiverse"
VALUE_FILES = sorted((CHART / "ci").glob("*.yaml"))
TOOLS = ROOT / "build" / "tools"
TIMEOUT_S = 60
Object: TypeAlias = dict[str, Any]


class HelmError(Exception):
    """What Helm said against it."""


@dataclass(frozen=True, slots=True)
class Helm:
    """One version of Helm."""

    program: Path
    chart: Path = CHART

    @property
    def version(self) -> str:
        return self._run("version", "--template", "{{.Version}}")

    def lint(self, *files: Path) -> str:
        return self._run("lint", "--strict", str(self.chart), *_values(files))

    def template(self, *files: Path, sets: Iterable[str] = ()) -> str:
        """The render as text. HelmError when values are refused."""
        given = [part for one in sets for part in ("--set", one)]
        return self._run(
            "template", "mv", str(self.chart), "--namespace", "serving", *_values(files), *given
        )

    def render(self, *files: Path, sets: Iterable[str] = ()) -> list[Object]:
        return objects(self.template(*files, sets=sets))

    def package(self, folder: Path) -> Path:
        """The chart as an archive."""
        self._run("package", str(self.chart), "--destination", str(folder))
        [made] = folder.glob("*.tgz")
        return made

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.program), *arguments], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        if done.returncode:
            raise HelmError((done.stderr + done.stdout).strip())
        return done.stdout


def _values(files: Iterable[Path]) -> list[str]:
    return [part for file in files for part in ("--values", str(file))]


def helms() -> list[Helm]:
    """Both versions. FileNotFoundError with the remedy when one is missing."""
    found = [Helm(TOOLS / name) for name in ("helm3", "helm4")]
    for helm in found:
        if not helm.program.exists():
            raise FileNotFoundError(f"{helm.program} is missing: run scripts/deploy_tools.py helm")
    return found


def objects(text: str) -> list[Object]:
    """The objects of a render."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [found for found in yaml.load_all(text, loader) if found]
