"""Dockerfiles: hadolint, and what we ask of every image."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.helm import ROOT

DOCKERFILES = sorted((ROOT / "deploy" / "docker").glob("*.Dockerfile"))
LOCKS = sorted((ROOT / "deploy" / "docker" / "locks").glob("*.txt"))
HADOLINT = Path(sys.executable).with_name("hadolint")
_COMPILERS = re.compile(r"\b(g\+\+|make|cmake|build-essential|git)\b")


def wrong() -> Iterator[str]:
    done = subprocess.run(
        [str(HADOLINT), *map(str, DOCKERFILES)], capture_output=True, text=True, timeout=60
    )
    yield from (done.stdout + done.stderr).splitlines()
    yield from unlocked()
    for file in DOCKERFILES:
        yield from (f"{file.name} {what}" for what in _ours(file.read_text("utf-8")))


def unlocked() -> Iterator[str]:
    """Where a lock says something else than constraints.txt, or lacks what an image declares."""
    fixed = {name: pin.version for name, pin in _pins(ROOT / "constraints.txt").items()}
    for file in LOCKS:
        pins = _pins(file)
        for name, pin in pins.items():
            if pin.version != fixed.get(name, pin.version):
                yield f"{file.name}: {name} is {pin.version}, constraints.txt says {fixed[name]}"
            if not pin.hashes:
                yield f"{file.name}: {name} has no hash"
        text = (file.parents[1] / f"{file.stem}.Dockerfile").read_text("utf-8")
        for folder in re.findall(
            r"\./([\w/]+)", text.partition("--no-deps")[2].partition("\nFROM")[0]
        ):
            project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text("utf-8"))[
                "project"
            ]
            wanted = {canonicalize_name(Requirement(one).name) for one in project["dependencies"]}
            for name in sorted(wanted - pins.keys()):
                if not name.startswith("multiverse-"):
                    yield f"{file.name}: {name}, which {folder} needs, is missing"


class Pin(NamedTuple):
    version: str
    hashes: int


def _pins(file: Path) -> dict[str, Pin]:
    """By name, of a file of requirements."""
    text = re.sub(r"^#.*$", "", file.read_text("utf-8"), flags=re.MULTILINE)
    found: dict[str, Pin] = {}
    for entry in text.replace("\\\n", " ").splitlines():
        name, equal, rest = entry.partition("==")
        if equal:
            version = rest.split()[0]
            found[canonicalize_name(name.partition("[")[0])] = Pin(version, rest.count("--hash="))
    return found


def _ours(text: str) -> Iterator[str]:
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    build, _, final = code.rpartition("\nFROM ")
    if "AS build" not in build:
        yield "has one stage"
    if not re.search(r"^USER 10001:10001$", final, re.MULTILINE):
        yield "runs as root"
    if _COMPILERS.search(final) or "pip install" in final:
        yield "has build tools in its last stage"
    if "--require-hashes" not in build and "pip install sglang==" not in build:
        yield "installs packages that no lock fixes"
    if re.search(r"^(ENV|ARG) .*(KEY|TOKEN|PASSWORD|SECRET)", code, re.MULTILINE):
        yield "holds a secret"
    if not re.search(
        r'^CMD \["python", "-m", "(multiverse_[a-z.]+|loadtest)"(, "[a-z]+")?\]$',
        final,
        re.MULTILINE,
    ):
        yield "has no command that gets signals"
