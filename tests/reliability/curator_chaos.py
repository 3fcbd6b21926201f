"""The curator service while its parts die: every sample ends once, no stored answer is paid twice.

Redis, two API replicas and two workers as processes, a teacher that speaks Gemini's protocol. A
worker is killed (-9) while it works on each stage, Redis is killed and comes back empty, an API
replica is killed, the teacher is gone for `--down` seconds. Then the ledger is compared with what
the teacher wrote down, call by call. A second job is cancelled while its calls are in flight. One
JSON line last.

    python -m tests.reliability.curator_chaos --samples 300 --database sqlite
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sqlalchemy import select

from multiverse_curator.faults import STAGES, Stage
from multiverse_curator.store import Database
from multiverse_curator.store.tables import answers, calls, samples
from tests.e2e.load import eventually
from tests.integration.curator.databases import KINDS, free_port, postgres
from tests.integration.curator.served import TeacherProcess
from tests.integration.curator.served import calls as told_calls
from tests.integration.curator.stack import CuratorStack, job_of, until, upload
from tests.unit.curator.generated import generated

WITHIN_S = 1800.0
LOOK_S = 0.001
MOST_CANCEL_S = 5.0


class Chaos:
    def __init__(self, database: str, journal: Path, options: argparse.Namespace) -> None:
        self._database = database
        self._journal = journal
        self._options = options

    def run(self) -> dict[str, Any]:
        options = self._options
        teacher = TeacherProcess(
            port=free_port(), latency=options.latency, journal=self._journal, seed=options.seed
        )
        result: dict[str, Any] = {"samples": options.samples, "database": options.database}
        begun = time.monotonic()
        with ExitStack() as stack:
            stack.callback(teacher.stop)
            teacher.start()
            service = CuratorStack(
                self._database, teacher.url, replicas=2, workers=2, lease_s=options.lease
            )
            stack.enter_context(service)
            database = Database(self._database)
            stack.callback(database.close)
            with service.client(0) as first, service.client(1) as second:
                rows = list(generated(options.samples, seed=options.seed))
                job = upload(first, rows, teacher="scripted", first_pause_s=0.5, attempts=100)
                result["killed_in"] = self._kill_in_each_stage(service, database)
                service.kill_redis()
                time.sleep(options.redis_down)  # the fault itself
                service.start_redis()
                service.apis[0].kill()
                teacher.stop()
                time.sleep(options.down)  # the fault itself
                teacher.start()
                told = until(second, job, "done", WITHIN_S)
                result["seconds"] = round(time.monotonic() - begun, 1)
                result["ended"] = told["samples"]
                result["calls"] = told["calls"]
                result["miscounted"] = told["calls"] != _calls_of(job, database)
                made = second.post(f"/v1/jobs/{job}/export", json={"validation": 0}).json()
                path = f"/v1/datasets/{made['id']}/files/train.jsonl"
                lines = second.get(path).text.splitlines()
                result["exported"] = len(lines)
                result["exported_twice"] = len(lines) - len({json.loads(x)["id"] for x in lines})
                result |= self._reconciled(database)
                result |= self._cancelled(second, teacher)
        result["passed"] = _passed(result)
        return result

    def _kill_in_each_stage(self, service: CuratorStack, database: Database) -> dict[str, bool]:
        """Kill -9 the worker that holds a sample before that stage, and start another."""
        killed = {}
        for stage in map(Stage, self._options.stages):
            pid = self._worker_in(stage, database)
            killed[stage.value] = pid is not None
            if pid is not None:
                service.kill_worker(pid)
                service.start_worker()
        return killed

    def _worker_in(self, stage: Stage, database: Database) -> int | None:
        held = (samples.c.owner > "") & (samples.c.stage == stage.value)
        query = select(samples.c.owner).where(held, samples.c.state == "pending").limit(1)
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            with database.read() as db:
                owner = db.scalar(query)
                if owner is not None:
                    return int(owner.partition("-")[0])
                left = select(samples.c.id).where(samples.c.state == "pending").limit(1)
                if db.scalar(left) is None:
                    return None
            time.sleep(LOOK_S)
        return None

    def _reconciled(self, database: Database) -> dict[str, Any]:
        """The ledger against what the teacher wrote down."""
        noted = [line.split() for line in self._journal.read_text("utf-8").splitlines()]
        asked = Counter(int(call) for what, call, _ in noted if what == "asked")
        answered = {int(call): float(at) for what, call, at in noted if what == "answered"}
        asked_at = {int(call): float(at) for what, call, at in noted if what == "asked"}
        with database.read() as db:
            ledger = {row.id: row for row in db.execute(select(calls))}
            stored = {row.key: row.call for row in db.execute(select(answers))}
        paid = [call for call, row in ledger.items() if row.state == "answered"]
        seen = [call for call in ledger if call in asked]
        unseen = {row.state for call, row in ledger.items() if call not in asked}
        return {
            "teacher_asked": sum(asked.values()),
            "ledger_asked": len(seen),
            "ledger_not_seen": len(ledger) - len(seen),
            "teacher_answered": len(answered),
            "ledger_answered": len(paid),
            "answered_but_lost": len([c for c in answered if ledger[c].state == "lost"]),
            "unexplained": len(asked.keys() - ledger.keys())
            + sum(count - 1 for count in asked.values())
            + len(set(paid) - answered.keys())
            + len([c for c in answered if ledger[c].state not in ("answered", "lost")])
            + len(unseen - {"lost", "failed"}),
            "stored_answers": len(stored),
            "paid_twice": len(paid) - len({ledger[call].key for call in paid}),
            "asked_after_answered": sum(
                at > answered[stored[ledger[call].key]]
                for call, at in asked_at.items()
                if ledger[call].key in stored
            ),
        }

    def _cancelled(self, client: Any, teacher: TeacherProcess) -> dict[str, Any]:
        """Seconds from the request to cancel until the teacher sees no call any more."""
        teacher.stop()
        teacher.latency = 600.0
        teacher.start()
        job = upload(client, generated(16, seed=self._options.seed + 1), teacher="scripted")
        eventually(lambda: told_calls(teacher.url)["at_once"] == 16, "calls in flight", WITHIN_S)
        begun = time.monotonic()
        client.post(f"/v1/jobs/{job}/cancel")
        eventually(lambda: told_calls(teacher.url)["at_once"] == 0, "no call any more", WITHIN_S)
        seconds = round(time.monotonic() - begun, 2)
        eventually(lambda: job_of(client, job)["calls"] == {"lost": 16}, "booked calls", WITHIN_S)
        return {"cancel_seconds": seconds}


def _calls_of(job: str, database: Database) -> dict[str, int]:
    with database.read() as db:
        return dict(Counter(db.scalars(select(calls.c.state).where(calls.c.job == job))))


def _passed(result: dict[str, Any]) -> bool:
    ended = result["ended"]
    return (
        ended["pending"] == 0
        and ended["dead"] == 0
        and ended["converted"] + ended["sequential"] == result["samples"]
        and result["exported"] == ended["converted"]
        and result["exported_twice"] == 0
        and result["teacher_asked"] == result["ledger_asked"]
        and not result["miscounted"]
        and result["unexplained"] == 0
        and result["paid_twice"] == 0
        and result["asked_after_answered"] == 0
        and result["stored_answers"] == result["ledger_answered"]
        and result["cancel_seconds"] <= MOST_CANCEL_S
    )


def chaos(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if options.database == "sqlite":
            url = f"sqlite:///{folder}/curator.db"
        else:
            url = stack.enter_context(postgres()).database()
        return Chaos(url, Path(folder) / "journal", options).run()


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    parser.add_argument("--latency", type=float, default=0.5)
    parser.add_argument("--down", type=float, default=60.0)
    parser.add_argument("--redis-down", type=float, default=3.0)
    parser.add_argument("--lease", type=float, default=10.0)
    parser.add_argument("--stages", nargs="+", default=list(STAGES), help="to kill a worker in")
    parser.add_argument("--seed", type=int, default=20261130)
    return parser


def main() -> int:
    result = chaos(arguments().parse_args())
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
