"""The compose file through the real `docker-compose config`, for all profiles."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from tests.deploy.helm import ROOT

FILE = ROOT / "docker-compose.yml"
PROGRAM = Path(sys.executable).with_name("docker-compose")
PROFILES = ("gpu", "observability", "load")
Service = dict[str, Any]
_SECRET = re.compile(r"(?i)(password|secret|token|key)$")


def config(*profiles: str, **variables: str) -> dict[str, Any]:
    """The file as compose reads it. RuntimeError with what compose says against it.

    `variables` are those of `.env`.
    """
    chosen = [part for profile in profiles for part in ("--profile", profile)]
    done = subprocess.run(
        [str(PROGRAM), "--file", str(FILE), *chosen, "config", "--format", "json"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables},
        timeout=60,
    )
    if done.returncode or "level=warning" in done.stderr:
        raise RuntimeError(f"{profiles}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def wrong() -> Iterator[str]:
    sets = [found for size in range(len(PROFILES) + 1) for found in combinations(PROFILES, size)]
    for profiles in sets:
        try:
            services = config(*profiles)["services"]
        except RuntimeError as error:
            yield str(error)
            continue
        for name, service in services.items():
            yield from (f"{name} {what}" for what in _service(service))


def _service(service: Service) -> Iterator[str]:
    if not service.get("read_only"):
        yield "may write to its root file system"
    if service.get("user", "0").split(":")[0] in ("0", "root"):
        yield "runs as root"
    if (
        service.get("cap_drop") != ["ALL"]
        or "no-new-privileges:true" not in service["security_opt"]
    ):
        yield "has capabilities"
    if not all(service.get(limit) for limit in ("mem_limit", "cpus", "pids_limit")):
        yield "has no limits"
    if "healthcheck" not in service and service.get("restart") != "no":
        yield "has no healthcheck"
    for variable, value in service.get("environment", {}).items():
        if _SECRET.search(variable) and value:
            yield f"has {variable} in the file"
    for port in service.get("ports", []):
        if not port.get("host_ip", "").startswith("127."):
            yield f"listens on all addresses at {port['published']}"
    if ":" not in service["image"]:
        yield "runs an image that may change"
