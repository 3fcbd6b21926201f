"""Services of the compose file as plain processes: same command, same environment.

Only what a container would give is put in its place: names of hosts, ports that are free here,
files of secrets, folders of volumes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multiverse_cli.stack import free_port
from tests.deploy.helm import ROOT

_PORTS = ("8000", "8001", "9090", "7071", "6379", "8080")
STOP_WITHIN_S = 30.0


@dataclass(slots=True)
class Machine:
    """Stands for the network and the files of all containers."""

    folder: Path  # of secrets and volumes
    config: dict[str, Any]  # the compose file
    ports: dict[tuple[str, str], int] = field(default_factory=dict)  # by service and port

    @property
    def services(self) -> dict[str, Any]:
        found: dict[str, Any] = self.config["services"]
        return found

    def port(self, service: str, port: str) -> int:
        return self.ports.setdefault((service, port), free_port())

    def __post_init__(self) -> None:
        """Secrets name hosts, too."""
        for secret in self.config["secrets"]:
            file = self.folder / self._file(secret)
            file.write_text(self.peers(file.read_text("utf-8")), "utf-8")

    def peers(self, text: str) -> str:
        """With the addresses that services have on this machine."""
        for peer in sorted(self.services, key=len, reverse=True):
            for port in _PORTS:
                text = text.replace(f"{peer}:{port}", f"127.0.0.1:{self.port(peer, port)}")
        return text

    def here(self, service: str, text: str) -> str:
        """A value of an environment or a command, as it must be on this machine."""
        text = self.peers(text.replace("$$", "$"))
        for port in _PORTS:
            text = str(self.port(service, port)) if text == port else text
            text = text.replace(f"127.0.0.1:{port}/", f"127.0.0.1:{self.port(service, port)}/")
        if text == "0.0.0.0":
            return "127.0.0.1"
        for secret, where in self._files(service).items():
            text = text.replace(secret, where)
        return text

    def _files(self, service: str) -> dict[str, str]:
        found = {
            f"/run/secrets/{secret['source']}": str(self.folder / self._file(secret["source"]))
            for secret in self.services[service].get("secrets", [])
        }
        for volume in self.services[service].get("volumes", []):
            bound = volume["type"] == "bind"
            found[volume["target"]] = volume["source"] if bound else str(self.folder / "volumes")
        return {**found, "/run/secrets": str(self.folder), "/models/": f"{ROOT / 'models'}/"}

    def _file(self, secret: str) -> str:
        return Path(self.config["secrets"][secret]["file"]).name

    def environment(self, service: str) -> dict[str, str]:
        given = self.services[service].get("environment", {})
        named = {name: value for name, value in given.items() if value is not None}
        return {name: self.here(service, value) for name, value in named.items()}

    def command(self, service: str) -> list[str]:
        given = [self.here(service, part) for part in self.services[service]["command"]]
        if given[0] == "redis-server":
            return [*given, "--port", str(self.port("redis", "6379")), "--dir", str(self.folder)]
        return [sys.executable, *given[1:]] if given[0] == "python" else given

    def healthcheck(self, service: str) -> list[str]:
        given = self.services[service]["healthcheck"]["test"][1:]
        mapped = [self.here(service, part) for part in given]
        if service == "redis":
            port = self.port("redis", "6379")
            mapped = [part.replace("redis-cli", f"redis-cli -p {port}") for part in mapped]
        return [sys.executable, *mapped[1:]] if mapped[0] == "python" else mapped

    @contextmanager
    def running(self, service: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
        """The service's process, with nothing of this process' settings around it."""
        process = subprocess.Popen(
            self.command(service), env=_inherited() | self.environment(service) | more
        )
        with ExitStack() as ending:
            ending.callback(process.wait)
            ending.callback(process.kill)
            yield process
            process.terminate()
            process.wait(STOP_WITHIN_S)

    def is_healthy(self, service: str) -> bool:
        """What the container's healthcheck says."""
        done = subprocess.run(self.healthcheck(service), capture_output=True, timeout=30)
        return done.returncode == 0

    def run(self, service: str) -> subprocess.CompletedProcess[str]:
        """A service that ends by itself."""
        return subprocess.run(
            self.command(service),
            env=_inherited() | self.environment(service),
            capture_output=True,
            text=True,
            timeout=100,
        )


def _inherited() -> dict[str, str]:
    """What finds programs and code; no settings."""
    return {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
