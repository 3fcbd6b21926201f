"""Trainings in a cluster: Jobs of the chart's template, against an API server of the test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client

from multiverse_cli.cluster import Trainings
from multiverse_cli.train_cluster import _settings
from multiverse_shared.errors import InvalidRequest, NotFound
from tests.deploy.helm import CHART, helms
from tests.deploy.objects import of_kind
from tests.kubernetes_api import Cluster, api_server

NAME = "run-1"


@pytest.fixture(scope="module")
def rendered() -> list[dict[str, Any]]:
    """The chart's objects: the template is the real one."""
    return helms()[-1].render(CHART / "ci" / "training.yaml")


@pytest.fixture
def cluster(rendered: list[dict[str, Any]]) -> Cluster:
    maps = {one["metadata"]["name"]: one for one in of_kind(rendered, "ConfigMap")}
    return Cluster(list(of_kind(rendered, "CronJob")), maps)


@pytest.fixture
def trainings(cluster: Cluster) -> Iterator[Trainings]:
    with api_server(cluster) as url:
        configuration = client.Configuration()
        configuration.host = url
        with client.ApiClient(configuration) as api:
            yield Trainings(api, "serving", poll_s=0.01)


def variables(cluster: Cluster) -> dict[str, str]:
    [container] = cluster.jobs[NAME]["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"]}


def test_a_job_is_the_chart_s_template_with_settings_of_its_own(
    cluster: Cluster, trainings: Trainings
) -> None:
    trainings.submit(NAME, {"seed": "7", "max_steps": "10"})
    job = cluster.jobs[NAME]
    template = cluster.cron_jobs[0]["spec"]["jobTemplate"]["spec"]
    assert variables(cluster) == {
        "MULTIVERSE_TRAIN_SEED": "7",
        "MULTIVERSE_TRAIN_MAX_STEPS": "10",
        "MULTIVERSE_TRAIN_OUTPUT": "/volume/runs/run-1",
    }
    pod, wanted = job["spec"]["template"]["spec"], template["template"]["spec"]
    assert pod["securityContext"] == wanted["securityContext"]
    [made], [one] = pod["containers"], wanted["containers"]
    assert {key: made[key] for key in made if key != "env"} == one
    assert job["spec"]["backoffLimit"] == template["backoffLimit"]


def test_an_output_that_is_given_counts(cluster: Cluster, trainings: Trainings) -> None:
    trainings.submit(NAME, {"output": "/volume/elsewhere"})
    assert variables(cluster)["MULTIVERSE_TRAIN_OUTPUT"] == "/volume/elsewhere"


def test_the_log_is_followed_over_pods_until_the_job_is_over(
    cluster: Cluster, trainings: Trainings
) -> None:
    trainings.submit(NAME, {})
    cluster.begin_pod(NAME, "first", ["step 1", "step 2"])
    cluster.begin_pod(NAME, "waits", ["never"], phase="Pending")
    cluster.begin_pod("other", "stranger", ["no line of ours"])
    lines = trainings.follow(NAME)
    assert [next(lines), next(lines)] == ["step 1", "step 2"]
    cluster.begin_pod(NAME, "second", ["step 3, naïve café"])
    cluster.end_job(NAME, "Complete")
    assert list(lines) == ["step 3, naïve café"]
    assert trainings.state(NAME).word == "done"


def test_a_failure_has_its_reason(cluster: Cluster, trainings: Trainings) -> None:
    trainings.submit(NAME, {})
    assert trainings.state(NAME).word == "running"
    cluster.end_job(NAME, "Failed", "BackoffLimitExceeded")
    state = trainings.state(NAME)
    assert (state.word, state.reason) == ("failed", "BackoffLimitExceeded")


def test_a_job_is_cancelled_with_its_pods(cluster: Cluster, trainings: Trainings) -> None:
    trainings.submit(NAME, {})
    trainings.cancel(NAME)
    [(name, how)] = cluster.deleted
    assert name == NAME
    assert "propagationPolicy=Foreground" in how["query"]
    with pytest.raises(NotFound, match="job run-1 is not there"):
        trainings.cancel(NAME)


def test_refusals_say_what_to_do(cluster: Cluster, trainings: Trainings) -> None:
    trainings.submit(NAME, {})
    with pytest.raises(InvalidRequest, match="is there already; cancel it"):
        trainings.submit(NAME, {})
    with pytest.raises(InvalidRequest, match="is no name of a Job"):
        trainings.submit("Run_1", {})
    with pytest.raises(NotFound, match="there is no template other"):
        trainings.submit("run-2", {}, template="other")
    cluster.forbidden = True
    with pytest.raises(InvalidRequest, match=r"trainer\.submitters"):
        trainings.submit("run-2", {})
    cluster.cron_jobs.clear()
    with pytest.raises(InvalidRequest, match=r"trainer\.enabled"):
        trainings.submit("run-2", {})


@pytest.mark.parametrize("given", ["seed", "sead=1", "=1"])
def test_what_is_no_setting_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequest, match=r"no SETTING=VALUE"):
        _settings([given])


def test_settings_may_hold_equals_signs() -> None:
    assert _settings(["prompt_suffix=a=b", "SEED=1"]) == {"prompt_suffix": "a=b", "seed": "1"}
