"""Databases for tests: SQLite files, and a PostgreSQL server that lives as long as the tests.

PostgreSQL does not run as root, so a root's tests run it as another user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.e2e.load import eventually

KINDS = ("sqlite", "postgresql")
START_WITHIN_S = 60.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _program(name: str) -> str:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join(map(str, folders))) or shutil.which(name)
    assert found, f"no {name}: install PostgreSQL (scripts/setup.sh all)"
    return found


class Postgres:
    """One server; `database` makes an empty one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        user = pwd.getpwuid(os.getuid()).pw_name
        self._user = "postgres" if user == "root" else user
        self._environment = {**os.environ, "LC_ALL": "C.UTF-8"}

    def start(self) -> None:
        if os.getuid() == 0:
            shutil.chown(self._folder, self._user)
        data = self._folder / "data"
        options = {"user": self._user if os.getuid() == 0 else None, "env": self._environment}
        command = [_program("initdb"), "--no-sync", "-A", "trust", "-U", "tests", "-D", str(data)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)  # type: ignore[call-overload]
        command = [_program("postgres"), "-D", str(data), "-p", str(self._port)]
        command += ["-c", f"unix_socket_directories={self._folder}", "-c", "fsync=off"]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **options)  # type: ignore[call-overload]
        eventually(self._answers, "a PostgreSQL that answers", START_WITHIN_S)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._address("postgres")).close()
        except psycopg.OperationalError:
            return False
        return True

    def _address(self, database: str) -> str:
        return f"postgresql://tests@127.0.0.1:{self._port}/{database}"

    def database(self) -> str:
        """URL of a new, empty database."""
        name = f"t{uuid.uuid4().hex}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self._address(name).replace("postgresql:", "postgresql+psycopg:")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)  # connections are cut
        self._process.wait(START_WITHIN_S)


@contextmanager
def postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        server = Postgres(Path(name))
        server.start()
        try:
            yield server
        finally:
            server.stop()
