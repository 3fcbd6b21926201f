"""Loads a router and writes what came of it: one JSON line last, a page if asked for.

Without --url it starts a router and simulator workers of its own. Ends with status 1 when a
threshold was not kept.
"""

# ruff: noqa: E402 - sockets have to be gevent's before anything is imported that has some
from __future__ import annotations

from gevent import monkey

monkey.patch_all()

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from loadtest.report import write_report
from loadtest.run import run_users
from loadtest.summary import Target, summary
from loadtest.thresholds import broken, read_thresholds
from loadtest.users import USERS
from loadtest.users.base import GRPC, PAUSE

if TYPE_CHECKING:
    from loadtest.stack import LoadedStack

DOWN_S = 3.0  # that a killed worker stays away


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="loadtest", description=__doc__)
    parser.add_argument("--url", help="a router that runs; its own one if left out")
    parser.add_argument("--grpc", help="host:port of that router's gRPC")
    parser.add_argument("--model", type=Path, default=Path("models/multiverse-tiny"))
    parser.add_argument("--workers", type=int, default=1, help="simulators, of its own router")
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--spawn-seconds", type=float, help="a tenth of the time if left out")
    parser.add_argument("--pause", type=float, default=20.0, help="mean, between a user's requests")
    parser.add_argument("--kill-worker-after", type=float, help="seconds; it comes back")
    parser.add_argument("--first-token-target", type=float, default=2.0, help="seconds")
    parser.add_argument("--token-target", type=float, default=0.2, help="of the longest chain")
    parser.add_argument("--kinds", nargs="+", choices=[kind.__name__ for kind in USERS])
    parser.add_argument("--thresholds", type=Path, help="file of bounds; none if left out")
    parser.add_argument("--report", type=Path, help="HTML page to write")
    parser.add_argument("--json", type=Path, help="file for the figures, too")
    options = parser.parse_args()
    if options.kill_worker_after and options.url:
        parser.error("--kill-worker-after: only a worker of its own can be killed; no --url")
    return options


@contextmanager
def loaded(options: argparse.Namespace) -> Iterator[LoadedStack | None]:
    """What is loaded: a stack of our own, or None for --url."""
    if options.url:
        yield None
        return
    from loadtest.stack import LoadedStack  # it needs router and worker; who has a --url may not

    with LoadedStack(options.model, options.workers).running() as stack:
        options.url, options.grpc = stack.url, f"127.0.0.1:{stack.grpc_port}"
        yield stack


def series(url: str) -> int | None:
    """How many the router's metrics have, where they can be read."""
    answer = httpx.get(f"{url}/metrics", timeout=30, trust_env=False)
    if not answer.is_success:
        return None
    return sum(bool(line) and not line.startswith("#") for line in answer.text.splitlines())


def load(options: argparse.Namespace) -> tuple[dict[str, Any], int]:
    """The figures, and the exit status."""
    thresholds = read_thresholds(options.thresholds) if options.thresholds else {}
    kinds = [kind for kind in USERS if kind.__name__ in (options.kinds or [kind.__name__])]
    target = Target(options.first_token_target, options.token_target)
    with loaded(options) as stack:
        os.environ[PAUSE] = str(options.pause)
        if options.grpc:
            os.environ[GRPC] = options.grpc
        later = []
        if stack and options.kill_worker_after:
            killed = options.kill_worker_after
            later = [(killed, stack.kill), (killed + DOWN_S, stack.revive)]
        spawn_s = options.spawn_seconds or options.seconds / 10
        users, seconds = options.users, options.seconds
        samples = run_users(kinds, options.url, users, seconds, spawn_s, later)
        found = summary(samples, seconds, target) | {"router_series": series(options.url)}
        if stack:
            found["router_rss_mb"] = round(stack.rss_mb(), 1)
    faults = broken(found, thresholds)
    run = {"users": users, "target": options.url, "worker_killed_at": options.kill_worker_after}
    if options.report:
        write_report(options.report, run, found, samples, faults)
    return {**run, **found, "broken": faults}, int(bool(faults))


def main() -> int:
    options = arguments()
    figures, status = load(options)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), "utf-8")
    print(json.dumps(figures), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
