"""Worker processes of a test."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

START_S = 60.0


def environment_of(cache: Path, **settings: Any) -> dict[str, str]:
    """The environment of a small worker; settings are given by name, None leaves one out."""
    own = {name: value for name, value in os.environ.items() if "MULTIVERSE" not in name}
    small = {"port": 0, "kv_cells": 1024, "sequences": 16, "threads": 1}
    named = {
        f"MULTIVERSE_WORKER_{name.upper()}": str(value)
        for name, value in {**small, **settings}.items()
        if value is not None
    }
    return {**own, **named, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}


@asynccontextmanager
async def started(environment: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "multiverse_worker",
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def until_it_listens_or_ends(process: asyncio.subprocess.Process) -> str:
    """All that it has said by then."""
    assert process.stderr
    said = ""
    async with asyncio.timeout(START_S):
        while "listens on" not in said and (line := await process.stderr.readline()):
            said += line.decode()
    return said


async def port_of(process: asyncio.subprocess.Process) -> int:
    """The port it says it listens on."""
    said = await until_it_listens_or_ends(process)
    found = re.search(r"listens on 127\.0\.0\.1:(\d+)", said)
    assert found, said
    return int(found[1])


async def failure(environment: dict[str, str]) -> tuple[int, str]:
    """Exit status and words of a worker that can't start."""
    async with started(environment) as process, asyncio.timeout(START_S):
        _, said = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()
