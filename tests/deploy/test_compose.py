"""The compose file: what compose says of it, and its services at work as plain processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from redis import Redis
from redis.exceptions import AuthenticationError

from tests.deploy import compose
from tests.deploy.helm import CHART, ROOT
from tests.deploy.plain_services import Machine
from tests.e2e.load import eventually

SMOKE = CHART / "files" / "smoke.py"
START_WITHIN_S = 90.0
LOAD = {"USERS": "12", "SECONDS": "15", "PAUSE": "2"}
TIER_DATABASE = 2
COMMON = f"max {', '.join(map(str, range(10, 99)))}"  # more than a chunk of tokens


def test_compose_takes_the_file_with_every_set_of_profiles() -> None:
    assert list(compose.wrong()) == []


def test_a_service_that_may_write_and_has_no_limits_is_named() -> None:
    service = {**compose.config()["services"]["redis"], "read_only": False, "pids_limit": 0}
    assert list(compose._service(service)) == ["may write to its root file system", "has no limits"]


def smoked(machine: Machine, key: str = "") -> subprocess.CompletedProcess[str]:
    """What the chart's test says of the router."""
    given = {
        "ROUTER_HTTP": "http://router:8000",
        "ROUTER_GRPC": "router:8001",
        "PROMPT": "max a:7+5-3,b:4+9-2,?",
        **({"API_KEY_FILE": key} if key else {}),
    }
    named = {name: machine.here("load", value) for name, value in given.items()}
    environment = {**os.environ, **named}
    return subprocess.run(
        [sys.executable, str(SMOKE)], env=environment, capture_output=True, text=True, timeout=100
    )


def ask(machine: Machine, *prompts: str) -> None:
    key = (machine.folder / "client_key").read_text("utf-8")
    url = machine.peers("http://router:8000/v1/generate")
    for prompt in prompts:
        body = {"prompt": prompt, "max_tokens": 8, "stream": False}
        answer = httpx.post(url, json=body, headers={"x-api-key": key}, timeout=60)
        assert answer.status_code == 200, answer.text


@pytest.mark.timeout(400)  # many processes, on a machine that may be busy
def test_the_services_work_together_with_certificates_and_keys(tmp_path: Path) -> None:
    """The worker lets in nobody but the router, the router nobody without a key."""
    subprocess.run([str(ROOT / "scripts" / "make_secrets.sh"), str(tmp_path)], check=True)
    (tmp_path / "volumes").mkdir()
    load = {f"MULTIVERSE_LOAD_{name}": value for name, value in LOAD.items()}
    machine = Machine(tmp_path, compose.config("load", **load))
    password = (tmp_path / "redis_password").read_text("utf-8").strip()
    redis = Redis(port=machine.port("redis", "6379"), password=password, db=TIER_DATABASE)
    with redis, machine.running("redis"), machine.running("worker"):
        eventually(lambda: machine.is_healthy("redis"), "a healthy Redis", START_WITHIN_S)
        eventually(lambda: machine.is_healthy("worker"), "a healthy worker", START_WITHIN_S)
        with machine.running("router"):
            eventually(lambda: machine.is_healthy("router"), "a healthy router", START_WITHIN_S)
            assert smoked(machine, key="/run/secrets/client_key").returncode == 0
            assert "401" in smoked(machine).stderr
            done = machine.run("load")
            assert done.returncode == 0, done.stderr
            told = json.loads(done.stdout.splitlines()[-1])
            assert told["outcomes"]["ok"] > 0
            assert told["outcomes"]["silent"] == 0
            assert {"Chat", "GrpcForks"} <= told["by_user"].keys()
            ask(machine, *(f"{COMMON} {number}" for number in range(3)))
            eventually(lambda: redis.dbsize() > 0, "a prompt in the tier", START_WITHIN_S)
            machine.services["load"]["environment"].pop("LOADTEST_KEY_FILE")
            machine.services["load"]["command"].append("--kinds=Chat")
            ends = json.loads(machine.run("load").stdout.splitlines()[-1])["outcomes"]
            assert ends["refused"] > 0
            assert ends["ok"] == ends["told"] == ends["silent"] == 0, ends
            stranger = Redis(port=machine.port("redis", "6379"))
            with stranger, pytest.raises(AuthenticationError):
                stranger.ping()


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
