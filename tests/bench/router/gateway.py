"""The Rust gateway from PyPI (`smg`), in front of the facade."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.router.processes import START_S, Child, running


def version(gateway: Path) -> str | None:
    """Of the gateway in this virtual environment; None where there is none."""
    found = sorted(gateway.glob("lib/python3*/site-packages/smg-*.dist-info"))
    return found[0].name.removesuffix(".dist-info").split("-")[1] if found else None


@contextmanager
def in_front_of(
    facade: int, port: int, gateway: Path, model: str, core: int, log: Path
) -> Iterator[Child]:
    """A gateway that relays to the facade on this port."""
    command = [str(gateway / "bin" / "python"), "-m", "smg.launch_router"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--worker-urls", f"http://127.0.0.1:{facade}", "--policy", "round_robin"]
    command += ["--disable-tokenizer-autoload", "--log-level", "warn"]
    with running(command, {}, core, port, log) as child:
        _until_it_relays(port, model)
        yield child


def _until_it_relays(port: int, model: str) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": "x"}], "stream": True}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps({**body, "max_tokens": 1, "seed": 0}).encode(),
        {"content-type": "application/json"},
    )
    deadline = time.monotonic() + START_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                answer.read()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the gateway does not relay: {error}") from error
            time.sleep(0.2)
