"""Whether streams survive silence: an engine that says nothing, and a router without requests.

Pings go over the worker's connection all the while; a server that takes them for abuse, or a
middleman that forgets idle connections, would break it. One JSON line last.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from multiverse_cli.stack import Stack

POLL_S = 0.05


def measure(model: Path, seconds: float, **router: str) -> dict[str, Any]:
    """One answer with an engine that stalls in its midst, then as long a time without any."""
    with tempfile.TemporaryDirectory() as folder:
        control = Path(folder) / "faults"
        worker = {"engine": "sim", "sim_speed": "5", "sim_control": str(control)}
        with Stack(model, worker_settings=worker, router_settings=router) as stack:
            silent = _stalled(stack.url, control, seconds)
            lost = _idle(stack.url, seconds)
            after = httpx.post(f"{stack.url}/v1/generate", json=_BODY | {"stream": False})
    return {
        "seconds": seconds,
        **silent,
        "lost_while_idle": lost,
        "answered_after": after.status_code == 200,
        "passed": silent["last_event"] == "finish" and not lost and after.status_code == 200,
    }


_BODY = {"prompt": "go", "seed": 1, "max_tokens": 400}


def _stalled(url: str, control: Path, seconds: float) -> dict[str, Any]:
    """Stall the engine at the first text, for `seconds`; what the client saw of it."""
    heartbeats, last, longest, before = 0, "", 0.0, time.monotonic()
    with httpx.stream("POST", f"{url}/v1/generate", json=_BODY, timeout=seconds + 30) as answer:
        for line in answer.iter_lines():
            heartbeats += line.startswith(": ")
            if not line.startswith("event: "):
                continue
            last, now = line.removeprefix("event: "), time.monotonic()
            longest, before = max(longest, now - before), now
            if last == "text" and not control.exists():
                control.write_text(f"stall@for={seconds}s", "utf-8")
    return {"last_event": last, "heartbeats": heartbeats, "longest_silence_s": round(longest, 1)}


def _idle(url: str, seconds: float) -> int:
    """How often the router was without its worker in so many seconds without a request."""
    return sum(status != 200 for status in _statuses(url, time.monotonic() + seconds))


def _statuses(url: str, until: float) -> Iterator[int]:
    with httpx.Client(base_url=url) as client:
        while time.monotonic() < until:
            yield client.get("/ready").status_code
            time.sleep(POLL_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    result = measure(options.model, options.seconds)
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
