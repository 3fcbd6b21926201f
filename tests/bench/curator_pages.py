"""How long the curator's pages take over many samples: each list, first and last page.

A database with `--samples` samples in one job (and fifty small jobs), five calls each, behind a
real API process. One JSON line last: milliseconds, median and the slowest of `--rounds`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import islice
from typing import Any

from sqlalchemy import insert, update

from multiverse_curator.faults import Stage
from multiverse_curator.store import Database, State, Store
from multiverse_curator.store.jobs import Jobs, NewJob
from multiverse_curator.store.tables import calls, jobs
from tests.integration.curator.databases import KINDS, postgres
from tests.integration.curator.stack import CuratorStack
from tests.unit.curator.generated import generated

MOST_MS = 200.0
OTHER_JOBS = 50
CALLS = 5
PAGE = 1000


def fill(database: Database, samples: int) -> str:
    """The job with so many samples: a tenth converted, a tenth dead, the rest pending."""
    options = {"teacher": "rules"}
    for number in range(OTHER_JOBS):
        new = NewJob(f"job {number}", "", options, 1, 64)
        Jobs(database).submit(new, generated(3, seed=number))
    new = NewJob("large", "", options, 1, 64)
    job, _ = Jobs(database).submit(new, generated(samples, seed=OTHER_JOBS))
    store = Store(database, job.id)
    ids = list(store.ids(State.PENDING, page=PAGE))
    for number in range(0, samples, 5):
        if number % 2:
            store.finish(ids[number], State.DEAD, reason="refused", stage=Stage.GROUPS)
        else:
            result = {"tree": ["text"], "answer": None, "curation": _CURATION}
            store.finish(ids[number], State.CONVERTED, result=result)
    rows = (
        {
            "job": job.id,
            "key": f"{sample}-{number}",
            "sample": sample,
            "stage": "summary",
            "state": "answered",
        }
        for sample in ids
        for number in range(CALLS)
    )
    while page := list(islice(rows, PAGE)):
        with database.write() as db:
            db.execute(insert(calls), page)
            counted = {"calls_answered": jobs.c.calls_answered + len(page)}
            db.execute(update(jobs).where(jobs.c.id == job.id).values(counted))
    return job.id


_CURATION = {"labels": [], "parallelism": 1, "distance": 0, "rewording": 0}


def measure(url: str, kind: str, samples: int, rounds: int) -> dict[str, Any]:
    database = Database(url)
    begun = time.monotonic()
    job = fill(database, samples)
    filled = round(time.monotonic() - begun, 1)
    ids = list(Store(database, job).ids(State.PENDING, page=PAGE))
    database.close()
    last = ids[-60]
    pages = {
        "jobs": "/v1/jobs",
        "job": f"/v1/jobs/{job}",
        "samples": f"/v1/jobs/{job}/samples?limit=200",
        "samples_last": f"/v1/jobs/{job}/samples?limit=200&after={last}",
        "samples_by_state": f"/v1/jobs/{job}/samples?state=pending&after={last}",
        "samples_by_stage": f"/v1/jobs/{job}/samples?stage=summary&after={last}",
        "dead_letters": f"/v1/jobs/{job}/dead-letters?limit=200",
        "sample": f"/v1/samples/{ids[0]}",
        "page_jobs": "/",
        "page_job": f"/jobs/{job}",
        "page_progress": f"/jobs/{job}/progress",
    }
    took: dict[str, list[float]] = {name: [] for name in pages}
    with CuratorStack(url, workers=0) as stack, stack.client() as client:
        for _ in range(rounds + 1):
            for name, path in pages.items():
                begun = time.perf_counter()
                response = client.get(path)
                took[name].append(1000 * (time.perf_counter() - begun))
                assert response.status_code == 200, response.text
    slowest = {name: round(max(times[1:]), 1) for name, times in took.items()}
    return {
        "samples": samples,
        "database": kind,
        "filled_s": filled,
        "median_ms": {name: round(statistics.median(t[1:]), 1) for name, t in took.items()},
        "slowest_ms": slowest,
        "passed": max(slowest.values()) < MOST_MS,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20000)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if options.database == "sqlite":
            url = f"sqlite:///{folder}/curator.db"
        else:
            url = stack.enter_context(postgres()).database()
        result = measure(url, options.database, options.samples, options.rounds)
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
