"""One source of settings: whoever changes a default sees schema, docs and chart disagree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deploy.generator.__main__ import differing

from tests.deploy.helm import ROOT

PACKAGES = ("shared", "protos", "services/router", "services/worker", "services/curator", "trainer")
SETTING = Path("services/router/multiverse_router/settings.py")
OLD, NEW = "default_max_tokens: int = Field(2048", "default_max_tokens: int = Field(4096"


def generator(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The generator over the code of another folder."""
    path = os.pathsep.join([str(root), *(str(root / package) for package in PACKAGES)])
    return subprocess.run(
        [sys.executable, "-m", "deploy.generator", "--root", str(root), *arguments],
        env=os.environ | {"PYTHONPATH": path},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_what_is_generated_is_what_the_settings_make() -> None:
    assert differing(ROOT) == [], "run `make settings`"


@pytest.mark.timeout(400)
def test_a_changed_default_is_seen_in_schema_docs_and_chart_until_they_are_made_anew(
    tmp_path: Path,
) -> None:
    for folder in ("deploy", "docs", *PACKAGES):
        skipped = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=skipped)
    text = (tmp_path / SETTING).read_text("utf-8")
    assert OLD in text
    (tmp_path / SETTING).write_text(text.replace(OLD, NEW), "utf-8")
    checked = generator(tmp_path, "--check")
    assert checked.returncode == 1
    for page in ("values.yaml", "values.schema.json", "docs/operations.md"):
        assert page in checked.stderr
    assert generator(tmp_path).returncode == 0
    assert "default_max_tokens: 4096" in (
        tmp_path / "deploy/helm/multiverse/values.yaml"
    ).read_text("utf-8")
    assert generator(tmp_path, "--check").returncode == 0
