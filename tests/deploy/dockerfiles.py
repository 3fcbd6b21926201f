"""Dockerfiles: hadolint, and what we ask of every image."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.deploy.helm import ROOT

DOCKERFILES = sorted((ROOT / "deploy" / "docker").glob("*.Dockerfile"))
HADOLINT = Path(sys.executable).with_name("hadolint")
_COMPILERS = re.compile(r"\b(g\+\+|make|cmake|build-essential|git)\b")


def wrong() -> Iterator[str]:
    done = subprocess.run(
        [str(HADOLINT), *map(str, DOCKERFILES)], capture_output=True, text=True, timeout=60
    )
    yield from (done.stdout + done.stderr).splitlines()
    for file in DOCKERFILES:
        yield from (f"{file.name} {what}" for what in _ours(file.read_text("utf-8")))


def _ours(text: str) -> Iterator[str]:
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    build, _, final = code.rpartition("\nFROM ")
    if "AS build" not in build:
        yield "has one stage"
    if not re.search(r"^USER 10001:10001$", final, re.MULTILINE):
        yield "runs as root"
    if _COMPILERS.search(final) or "pip install" in final:
        yield "has build tools in its last stage"
    if "--constraint" not in build:
        yield "installs versions that nothing fixes"
    if re.search(r"^(ENV|ARG) .*(KEY|TOKEN|PASSWORD|SECRET)", code, re.MULTILINE):
        yield "holds a secret"
    if not re.search(
        r'^CMD \["python", "-m", "multiverse_[a-z.]+"(, "[a-z]+")?\]$', final, re.MULTILINE
    ):
        yield "has no command that gets signals"
