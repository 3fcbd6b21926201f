"""A real Prometheus scrapes router, worker and curator: what we ask for is there, and bounded."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from multiverse_cli.stack import Stack, free_port
from multiverse_client import Client, Text
from tests.e2e.answers import FLAT, NESTED
from tests.e2e.conftest import MODEL
from tests.e2e.load import eventually
from tests.integration.curator.stack import CuratorStack, upload
from tests.integration.observability.queries import RULES, expressions, metrics
from tests.unit.curator.generated import generated

WITHIN_S = 90.0
FUZZED = 50


@dataclass(frozen=True, slots=True)
class Observed:
    stack: Stack
    curator: CuratorStack
    url: str  # of Prometheus

    def query(self, expression: str) -> list[dict[str, object]]:
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": expression})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, object]] = answer.json()["data"]["result"]
        return found

    @property
    def names(self) -> set[str]:
        """Metrics that have a sample."""
        answer = httpx.get(f"{self.url}/api/v1/label/__name__/values")
        return set(answer.json()["data"])


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    folder = tmp_path_factory.mktemp("prometheus")
    worker_port, curator_worker_port = free_port(), free_port()
    database = f"sqlite:///{folder}/curator.db"
    with (
        Stack(MODEL, worker_settings={"metrics_port": str(worker_port)}) as stack,
        CuratorStack(database, metrics_port=curator_worker_port) as curator,
    ):
        ports = [stack.port, worker_port, curator.ports[0], curator_worker_port]
        port = free_port()  # now that nothing else is going to take one
        process = prometheus(folder, port, [f"127.0.0.1:{one}" for one in ports])
        try:
            found = Observed(stack, curator, f"http://127.0.0.1:{port}")
            eventually(lambda: is_ready(found, process), "a Prometheus that is ready", WITHIN_S)
            yield found
        finally:
            process.terminate()
            process.wait(20)


def prometheus(folder: Path, port: int, targets: list[str]) -> subprocess.Popen[bytes]:
    """With our rules, evaluated as often as it scrapes."""
    for file in RULES:
        rules = yaml.safe_load(file.read_text())
        for group in rules["groups"]:
            group["interval"] = "1s"
        (folder / file.name).write_text(yaml.safe_dump(rules))
    config = {
        "global": {"scrape_interval": "3s", "evaluation_interval": "1s"},
        "rule_files": [file.name for file in RULES],
        "scrape_configs": [{"job_name": "multiverse", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def is_ready(found: Observed, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "Prometheus has ended; its log is beside its data"
    try:
        return httpx.get(f"{found.url}/-/ready").is_success
    except httpx.TransportError:
        return False


pytestmark = pytest.mark.timeout(300)  # Prometheus looks when it looks


def use(observed: Observed) -> None:
    """Of each kind of what is counted, something."""
    stack = observed.stack
    with observed.curator.client() as client:
        upload(client, generated(2, seed=1), teacher="rules")
    with Client(stack.url) as client:
        client.generate(NESTED)
        parts = client.generate(FLAT).root.parts
    tags = [part.token_ids for part in parts if isinstance(part, Text) and part.kind == "tag"]
    begun = {"prompt": list(tags[0]), "max_tokens": 40, "temperature": 0}
    answer = httpx.post(f"{stack.url}/v1/completions", json=begun)
    assert answer.json()["multiverse"]["irregular"]  # it goes on with a plan that nobody opened
    with Client(f"grpc://{stack.grpc_address}") as client:
        client.generate(FLAT)
    assert httpx.post(f"{stack.url}/v1/generate", json={}).status_code == 422
    with httpx.stream("POST", f"{stack.url}/v1/generate", json={"prompt": NESTED}) as answer:
        next(answer.iter_lines())


def test_every_metric_of_dashboards_and_alerts_is_seen(observed: Observed) -> None:
    wanted = {name for expression in expressions() for name in metrics(expression)}
    assert len(wanted) > 30

    recorded = {name for name in wanted if ":" in name}
    use(observed)
    eventually(lambda: not wanted - recorded - observed.names, "all metrics", WITHIN_S)
    use(observed)  # rates are of what rises while it is looked at
    eventually(lambda: not wanted - observed.names, "all recorded metrics", WITHIN_S)
    assert len(observed.query("up == 1")) == 4


def test_every_expression_is_one_that_prometheus_evaluates(observed: Observed) -> None:
    for expression in expressions():
        observed.query(expression)
    eventually(
        lambda: observed.query("model:multiverse_parallelism:mean1h > 1"), "parallelism", WITHIN_S
    )


def test_whatever_is_asked_leaves_the_number_of_series_bounded(observed: Observed) -> None:
    """Paths, models, methods, keys and request ids that nobody has ever heard of."""
    url, rng = observed.stack.url, random.Random(7)

    def series() -> int:
        lines = httpx.get(f"{url}/metrics").text.splitlines()
        return sum(bool(line) and not line.startswith("#") for line in lines)

    def fuzz(count: int) -> None:
        with httpx.Client(base_url=url) as client:
            for _ in range(count):
                word = rng.randbytes(6).hex()
                headers = {"x-request-id": word, "x-api-key": word}
                method = rng.choice(["GET", "POST", "PUT", "DELETE", word.upper()])
                client.request(method, f"/{word}/{word}", headers=headers)
                client.get(f"/v1/models/{word}", headers=headers)
                body = {"model": word, "prompt": word, word: word}
                client.post("/v1/generate", json=body, headers=headers)
                client.post("/v1/chat/completions", json={**body, "messages": []})

    fuzz(20)
    before = series()
    fuzz(FUZZED)
    assert series() == before
    assert before < 1000
