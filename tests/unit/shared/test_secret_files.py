"""Secrets may be files of a folder; variables go before them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = {
    "router": ("multiverse_router.settings:RouterSettings", "redis_url"),
    "worker": ("multiverse_worker.settings:WorkerSettings", "tier_secret"),
    "curator": ("multiverse_curator.service.settings:CuratorSettings", "redis"),
}
PROGRAM = """
import importlib, sys
module, name = sys.argv[1].split(":")
given = dict(pair.split("=") for pair in sys.argv[3:])
settings = getattr(importlib.import_module(module), name)(**given)
print(getattr(settings, sys.argv[2]).get_secret_value())
"""


def read(process: str, **variables: str) -> str:
    """The setting as a process with these variables has it."""
    settings, field = SETTINGS[process]
    given = ["model=models/multiverse-tiny"] if process == "worker" else []
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, settings, field, *given],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("process", SETTINGS)
def test_a_setting_is_read_from_its_file_unless_there_is_a_variable(
    process: str, tmp_path: Path
) -> None:
    name = f"multiverse_{process}_{SETTINGS[process][1]}"
    (tmp_path / name).write_text("redis://of-the-file\n", "utf-8")
    folder = {"MULTIVERSE_SECRETS": str(tmp_path)}
    assert read(process, **folder) == "redis://of-the-file"
    assert read(process, **folder, **{name.upper(): "redis://variable"}) == "redis://variable"
    assert "of-the-file" not in read(process)
