"""The service as its users have it: real processes, Redis, a teacher behind Gemini's protocol."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from redis import Redis
from typer.testing import CliRunner

from multiverse_cli.errors import InputError
from multiverse_cli.main import app
from multiverse_curator.service.pace import RedisPace
from multiverse_curator.source import Source
from tests.e2e.load import eventually
from tests.integration.curator.served import calls, teacher_server
from tests.integration.curator.stack import CuratorStack, job_of, until, upload
from tests.unit.curator.generated import generated

SAMPLES = 10
pytestmark = pytest.mark.timeout(600)  # a loaded machine starts a service slowly


@pytest.fixture(scope="module")
def teacher() -> Iterator[str]:
    with teacher_server(latency=0.01) as url:
        yield url


@pytest.fixture(scope="module")
def stack(make_database: Callable[[], str], teacher: str) -> Iterator[CuratorStack]:
    with CuratorStack(make_database(), teacher, replicas=2) as running:
        yield running


@pytest.fixture
def client(stack: CuratorStack) -> Iterator[httpx.Client]:
    with stack.client() as opened:
        yield opened


def test_a_file_becomes_a_dataset(client: httpx.Client, stack: CuratorStack, teacher: str) -> None:
    before = calls(teacher)["asked"]
    rows = list(generated(SAMPLES, seed=21))
    job = upload(client, rows, teacher="scripted", name="mine", budget=100.0)
    with stack.client(replica=1) as other:  # any replica knows all jobs
        told = until(other, job, "done")
        assert told["progress"] == 1.0
    assert sum(told["samples"].values()) == SAMPLES
    assert told["samples"]["converted"] > 0
    asked = calls(teacher)["asked"] - before
    assert told["calls"] == {"answered": asked}
    assert told["input_tokens"] == 100 * asked
    assert told["spent"] == pytest.approx((100 * 10 + 10 * 100) * asked / 1e6)
    listed = client.get("/v1/jobs", params={"limit": 1}).json()
    assert [one["name"] for one in listed["jobs"]] == ["mine"]
    first = client.get(f"/v1/jobs/{job}/samples", params={"limit": 4}).json()
    rest = client.get(f"/v1/jobs/{job}/samples", params={"after": first["next"]}).json()
    keys = [row["key"] for row in [*first["samples"], *rest["samples"]]]
    assert keys == [source.key for source in rows]
    converted = client.get(f"/v1/jobs/{job}/samples", params={"state": "converted"}).json()
    sample = client.get(f"/v1/samples/{converted['samples'][0]['id']}").json()
    assert set(sample["outputs"]) == {"summary", "groups", "structure", "refill", "rewrite"}
    assert sample["result"]["tree"]
    assert [call["state"] for call in sample["calls"]] == ["answered"] * len(sample["calls"])
    made = client.post(f"/v1/jobs/{job}/export", json={"validation": 0}).json()
    assert made in client.get("/v1/datasets", params={"job": job}).json()["datasets"]
    assert client.get(f"/v1/datasets/{made['id']}").json() == made
    file = client.get(f"/v1/datasets/{made['id']}/files/train.jsonl").text
    ids = [json.loads(line)["id"] for line in file.splitlines()]
    assert len(ids) == len(set(ids)) == made["card"]["rows"]["train"]
    assert client.get(f"/v1/datasets/{made['id']}/files/other").status_code == 404


def test_a_cancelled_job_stops_its_calls(make_database: Callable[[], str]) -> None:
    with (
        teacher_server(latency=60) as teacher,
        CuratorStack(make_database(), teacher) as stack,
        stack.client() as client,
    ):
        job = upload(client, generated(6, seed=22), teacher="scripted")
        eventually(lambda: calls(teacher)["at_once"] == 6, "questions in flight", 300)
        begun = time.monotonic()
        assert client.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"
        eventually(lambda: calls(teacher)["at_once"] == 0, "no question in flight", 300)
        seconds = time.monotonic() - begun
        eventually(lambda: job_of(client, job)["calls"] == {"lost": 6}, "booked calls", 300)
        assert calls(teacher)["asked"] == 6
        assert job_of(client, job)["samples"]["pending"] == 6
        assert client.post(f"/v1/jobs/{job}/resume").status_code == 409
        assert seconds < 60  # five when the machine is quiet: `make curator-chaos` measures it


def test_a_paused_job_asks_nothing_until_it_goes_on(client: httpx.Client, teacher: str) -> None:
    job = upload(client, generated(12, seed=23), teacher="scripted", in_flight=1)
    eventually(lambda: job_of(client, job)["calls"], "a call", 300)
    assert client.post(f"/v1/jobs/{job}/pause").json()["state"] == "paused"
    settled = _settled(client, job)
    assert settled["samples"]["pending"] > 0
    assert client.post(f"/v1/jobs/{job}/resume").json()["state"] == "running"
    assert until(client, job, "done")["calls"].keys() == {"answered"}


def _settled(client: httpx.Client, job: str) -> dict[str, object]:
    """The job when nothing of it is in flight any more."""
    eventually(lambda: "started" not in job_of(client, job)["calls"], "calls that end", 300)
    return job_of(client, job)


def test_a_spent_budget_pauses_the_job_and_a_larger_one_ends_it(client: httpx.Client) -> None:
    job = upload(
        client, generated(8, seed=24), teacher="scripted", budget=0.05, max_output_tokens=100
    )
    told = until(client, job, "paused")
    assert "budget" in told["reason"]
    assert 0 < _settled(client, job)["spent"] <= 0.05  # type: ignore[operator]
    client.post(f"/v1/jobs/{job}/resume", json={"budget": 100.0})
    assert until(client, job, "done")["reason"] == ""


def test_dead_letters_are_listed_and_tried_again(make_database: Callable[[], str]) -> None:
    with (
        teacher_server("invalid=1", most_faults=1) as teacher,
        CuratorStack(make_database(), teacher) as stack,
        stack.client() as client,
    ):
        job = upload(client, generated(3, seed=26), teacher="scripted", tries=1)
        assert until(client, job, "done")["samples"]["dead"] == 3
        dead = client.get(f"/v1/jobs/{job}/dead-letters").json()["samples"]
        assert [row["failed_stage"] for row in dead] == ["summary"] * 3
        assert all("JSON" in row["reason"] for row in dead)
        one = {"samples": [dead[0]["id"]]}
        for failed_at in ("summary", "groups"):
            # Badly answered once more with the first complaint, well the second time.
            url = f"/v1/jobs/{job}/dead-letters/retry"
            assert client.post(url, json=one).json() == {"retried": 1}
            assert until(client, job, "done")["samples"]["dead"] == 3
            assert client.get(f"/v1/samples/{dead[0]['id']}").json()["failed_stage"] == failed_at
        assert calls(teacher)["answered_twice"] == 0


def test_a_file_of_the_input_folder_can_be_named(client: httpx.Client, stack: CuratorStack) -> None:
    rows = [source.model_dump_json() for source in generated(3, seed=27)]
    (stack.folder / "rows.jsonl").write_text("\n".join([*rows, "{broken"]), "utf-8")
    again = {"idempotency-key": "once"}
    made = client.post("/v1/jobs", json={"path": "rows.jsonl"}, headers=again)
    assert made.status_code == 201, made.text
    same = client.post("/v1/jobs", json={"path": "rows.jsonl"}, headers=again)
    assert (same.status_code, same.json()["id"]) == (200, made.json()["id"])
    told = job_of(client, made.json()["id"])
    assert told["broken"][0]["line"] == 4
    for path in ("../rows.jsonl", "/etc/passwd", "none.jsonl"):
        refused = client.post("/v1/jobs", json={"path": path})
        assert refused.status_code == 400
        assert refused.json()["error"]["param"] == "path"


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"teacher": "nobody"}, "teacher"),
        ({"dialect": "none"}, "dialect"),
        ({"max_dependence": 1}, "max_dependence"),
        ({"in_flight": 0}, "options.in_flight"),
        ({"unknown": 1}, "options.unknown"),
    ],
)
def test_what_is_wrong_is_named(client: httpx.Client, options: object, param: str) -> None:
    row = Source(prompt="p", reasoning="r").model_dump_json()
    form = {"options": json.dumps(options)}
    refused = client.post("/v1/jobs/upload", files={"file": ("f", row)}, data=form)
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["param"] == param


def test_the_command_submits_and_watches(stack: CuratorStack, tmp_path: Path) -> None:
    rows = [source.model_dump_json() for source in generated(4, seed=28)]
    (tmp_path / "in.jsonl").write_text("\n".join(rows), "utf-8")
    submit = ["curate", "submit", str(tmp_path / "in.jsonl"), "--url", stack.url, "--watch"]
    more = ["--teacher", "scripted", "--budget", "5", "--option", "tries=2", "--submission", "mine"]
    result = CliRunner().invoke(app, [*submit, *more], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    first, last = map(json.loads, result.stdout.splitlines())
    assert first["id"] == last["id"]
    assert (first["options"]["budget"], first["options"]["tries"]) == (5.0, 2)
    assert last["state"] == "done"
    with pytest.raises(InputError, match="no job 'none'"):
        CliRunner().invoke(
            app, ["curate", "watch", "none", "--url", stack.url], catch_exceptions=False
        )


async def test_a_rate_holds_for_all_workers_together(stack: CuratorStack) -> None:
    with Redis(port=stack.redis_port) as redis:
        paces = [RedisPace(redis, "slow", None, tokens_per_minute=60_000) for _ in range(2)]
        await paces[0].wait(10_000)  # ten seconds' worth may go at once
        begun = time.monotonic()
        await paces[1].wait(150)
        await paces[0].wait(150)
        assert time.monotonic() - begun >= 0.28


def test_every_route_is_described_and_metrics_count(client: httpx.Client) -> None:
    schema = client.get("/openapi.json").json()
    assert {
        "/v1/jobs",
        "/v1/jobs/upload",
        "/v1/jobs/{job}",
        "/v1/jobs/{job}/pause",
        "/v1/jobs/{job}/resume",
        "/v1/jobs/{job}/cancel",
        "/v1/jobs/{job}/samples",
        "/v1/jobs/{job}/dead-letters",
        "/v1/jobs/{job}/dead-letters/retry",
        "/v1/jobs/{job}/export",
        "/v1/samples/{sample}",
        "/v1/datasets",
        "/v1/teachers",
    } <= schema["paths"].keys()
    told = client.get("/metrics").text
    assert 'multiverse_curator_samples{state="converted"}' in told
    assert 'multiverse_curator_requests_total{route="/v1/jobs/upload",status="2xx"}' in told
    teachers = client.get("/v1/teachers").json()["teachers"]
    assert {one["name"] for one in teachers} == {"rules", "scripted"}
