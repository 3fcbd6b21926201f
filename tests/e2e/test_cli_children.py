"""Commands that start processes end them, however they are ended themselves."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from itertools import islice
from pathlib import Path

import httpx

from multiverse_cli.stack import free_port
from multiverse_client import Client
from tests.e2e.answers import FLAT, NESTED, stream
from tests.e2e.load import eventually
from tests.e2e.processes import alive, children_of, command, frozen


def ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ready", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def serve(model: Path, port: int, grpc_port: int | None = None) -> list[str]:
    ports = ["--port", str(port), "--grpc-port", str(grpc_port or free_port())]
    return ["serve", "--model", str(model), *ports]


def test_serve_says_where_its_two_apis_are(model: Path, tmp_path: Path) -> None:
    port, grpc_port = free_port(), free_port()
    with command(tmp_path, *serve(model, port, grpc_port)) as process:
        eventually(lambda: ready(port), "a router that is ready", 60)
        eventually((tmp_path / "out").read_text, "a line of the command")
        with Client(f"grpc://127.0.0.1:{grpc_port}") as client:
            assert client.models()[0].name == model.name
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    said = (tmp_path / "out").read_text("utf-8")
    assert f"http://127.0.0.1:{port}, gRPC at 127.0.0.1:{grpc_port}" in said


def test_serve_ends_both_children_on_sigterm(model: Path, tmp_path: Path) -> None:
    port = free_port()
    with command(tmp_path, *serve(model, port)) as process:
        eventually(lambda: ready(port), "a router that is ready", 60)
        children = children_of(process.pid)
        assert len(children) == 2
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert not [line for pid, line in children.items() if alive(pid)]
    assert "Traceback" not in (tmp_path / "err").read_text("utf-8")


def test_serve_asked_twice_to_end_leaves_no_child_behind(model: Path, tmp_path: Path) -> None:
    """The second signal comes while the first one's stop waits for a running stream."""
    port = free_port()
    with command(tmp_path, *serve(model, port)) as process:
        eventually(lambda: ready(port), "a router that is ready", 60)
        children = children_of(process.pid)
        worker = next(pid for pid, line in children.items() if "multiverse_worker" in line)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            events = stream(client, NESTED)
            list(islice(events, 3))
            with frozen(worker):
                process.send_signal(signal.SIGTERM)
                eventually(lambda: not ready(port), "a router that takes no one new")
                process.send_signal(signal.SIGTERM)
            with suppress(httpx.RemoteProtocolError):  # whoever asks twice may break it off
                for _ in events:
                    pass
        try:
            process.wait(15)
            eventually(lambda: not any(map(alive, children)), "no child that is left", 5)
        finally:
            kill(children)


def test_generate_with_a_model_ends_its_children_when_it_is_ended(
    model: Path, tmp_path: Path
) -> None:
    """As `timeout` does it."""
    children: dict[int, str] = {}
    with command(tmp_path, "generate", FLAT, "--model", str(model)) as process:
        eventually(lambda: children_of(process.pid), "a child", 30)
        children |= children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
            eventually(lambda: not any(map(alive, children)), "no child that is left", 5)
        finally:
            kill(children)


def kill(children: dict[int, str]) -> None:
    """What a failed test has left behind."""
    for pid in children:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
