"""The compose file: what compose says of it, and its services at work as plain processes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.deploy import compose
from tests.deploy.helm import ROOT
from tests.deploy.plain_services import Machine
from tests.e2e.load import eventually

START_WITHIN_S = 90.0


def test_compose_takes_the_file_with_every_set_of_profiles() -> None:
    assert list(compose.wrong()) == []


def test_a_service_that_may_write_and_has_no_limits_is_named() -> None:
    service = {**compose.config()["services"]["redis"], "read_only": False, "pids_limit": 0}
    assert list(compose._service(service)) == ["may write to its root file system", "has no limits"]


@pytest.mark.timeout(400)  # many processes, on a machine that may be busy
def test_the_services_work_together_with_certificates_and_keys(tmp_path: Path) -> None:
    """The worker lets in nobody but the router, the router nobody without a key."""
    subprocess.run([str(ROOT / "scripts" / "make_secrets.sh"), str(tmp_path)], check=True)
    (tmp_path / "volumes").mkdir()
    machine = Machine(tmp_path, compose.config("load"))
    with machine.running("redis"), machine.running("worker"):
        eventually(lambda: machine.is_healthy("redis"), "a healthy Redis", START_WITHIN_S)
        eventually(lambda: machine.is_healthy("worker"), "a healthy worker", START_WITHIN_S)
        with machine.running("router"):
            eventually(lambda: machine.is_healthy("router"), "a healthy router", START_WITHIN_S)
            done = machine.run("load")
            told = json.loads(done.stdout)
            assert done.returncode == 0, done.stderr
            assert told["ok"]
            assert told["http"]["last"] == told["grpc"]["last"] == ["finish"]
            machine.services["load"]["environment"].pop("API_KEY_FILE")
            assert "401" in machine.run("load").stderr


@pytest.mark.timeout(400)
def test_the_curator_s_services_work_together(tmp_path: Path) -> None:
    subprocess.run([str(ROOT / "scripts" / "make_secrets.sh"), str(tmp_path)], check=True)
    (tmp_path / "volumes").mkdir()
    machine = Machine(tmp_path, compose.config())
    with machine.running("redis"), machine.running("curator-api"):
        eventually(lambda: machine.is_healthy("curator-api"), "a healthy API", START_WITHIN_S)
        with machine.running("curator-worker"):
            what = "a healthy worker"
            eventually(lambda: machine.is_healthy("curator-worker"), what, START_WITHIN_S)
