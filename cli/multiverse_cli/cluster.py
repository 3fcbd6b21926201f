"""Trainings as Kubernetes Jobs, made of the chart's template: a suspended CronJob.

Knows Jobs, pods and logs. Must not know how a training works: settings are variables by name.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from multiverse_shared.errors import InvalidRequest, MultiverseError, NotFound

PREFIX = "MULTIVERSE_TRAIN_"
TEMPLATE = "app.kubernetes.io/component=trainer"
CONTAINER = "trainer"
TIMEOUT_S = 30.0
POLL_S = 1.0
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class State:
    """Of a Job: `waiting`, `running`, `done` or `failed`, and why."""

    word: str
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.word in ("done", "failed")


class Trainings:
    """Jobs of one namespace. Every call raises MultiverseError when the cluster refuses it."""

    def __init__(self, api: client.ApiClient, namespace: str, poll_s: float = POLL_S) -> None:
        self._batch = client.BatchV1Api(api)
        self._core = client.CoreV1Api(api)
        self._namespace = namespace
        self._poll_s = poll_s

    @classmethod
    def of(cls, context: str | None, namespace: str | None) -> Trainings:
        """By the user's kubeconfig, or the account of the pod. InvalidRequest without either."""
        try:
            config.load_kube_config(context=context)
            _, active = config.list_kube_config_contexts()
            known = active["context"].get("namespace", "default")
        except config.ConfigException:
            try:
                config.load_incluster_config()
            except config.ConfigException:
                raise InvalidRequest(
                    "no cluster is known: set KUBECONFIG, or run in a pod", field="context"
                ) from None
            known = "default"
        return cls(client.ApiClient(), namespace or known)

    def submit(self, name: str, settings: Mapping[str, str], template: str | None = None) -> None:
        """A Job of that name. Its output is a folder of that name in the template's."""
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                f"{name!r} is no name of a Job: up to 52 of a-z, 0-9 and -", field="name"
            )
        found = self._template(template)
        spec = found["spec"]["jobTemplate"]["spec"]
        labels = dict(found["spec"]["jobTemplate"].get("metadata", {}).get("labels", {}))
        container = spec["template"]["spec"]["containers"][0]
        given = {PREFIX + key.upper(): value for key, value in settings.items()}
        given.setdefault(f"{PREFIX}OUTPUT", f"{self._output(container)}/{name}")
        kept = [one for one in container.get("env", []) if one["name"] not in given]
        added = [{"name": key, "value": value} for key, value in sorted(given.items())]
        container["env"] = [*kept, *added]
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
        }
        with _told(f"job {name}"):
            self._batch.create_namespaced_job(self._namespace, body, _request_timeout=TIMEOUT_S)

    def follow(self, name: str) -> Iterator[str]:
        """Lines of its log, of one pod after another, until it is over."""
        seen: set[str] = set()
        while True:
            state = self.state(name)
            for pod in self._pods(name):
                if pod not in seen:
                    seen.add(pod)
                    yield from self._log(pod)
            if state.is_over:
                return
            time.sleep(self._poll_s)

    def state(self, name: str) -> State:
        with _told(f"job {name}"):
            job = self._batch.read_namespaced_job(name, self._namespace, _request_timeout=TIMEOUT_S)
        for condition in job.status.conditions or []:
            if condition.status == "True" and condition.type in ("Complete", "Failed"):
                word = "done" if condition.type == "Complete" else "failed"
                return State(word, condition.reason or "")
        return State("running" if job.status.active else "waiting")

    def cancel(self, name: str) -> None:
        """Its pods get SIGTERM, save a checkpoint and end; submitted again it goes on."""
        with _told(f"job {name}"):
            self._batch.delete_namespaced_job(
                name,
                self._namespace,
                propagation_policy="Foreground",
                _request_timeout=TIMEOUT_S,
            )

    def _template(self, name: str | None) -> dict[str, Any]:
        with _told("the chart's template"):
            listed = self._batch.list_namespaced_cron_job(
                self._namespace, label_selector=TEMPLATE, _request_timeout=TIMEOUT_S
            )
        found = {one.metadata.name: one for one in listed.items}
        if name is None and len(found) != 1:
            raise InvalidRequest(
                f"namespace {self._namespace} has {len(found)} templates for trainings: "
                f"{', '.join(sorted(found)) or 'install the chart with trainer.enabled'}",
                field="template",
            )
        chosen = name or next(iter(found))
        if chosen not in found:
            raise NotFound(f"there is no template {chosen} in {self._namespace}", field="template")
        plain = client.ApiClient().sanitize_for_serialization(found[chosen])
        return json.loads(json.dumps(plain))  # type: ignore[no-any-return]

    def _output(self, container: dict[str, Any]) -> str:
        """The folder of all outputs, from the template's ConfigMap."""
        for source in container.get("envFrom", []):
            name = source.get("configMapRef", {}).get("name")
            if name:
                with _told(f"config map {name}"):
                    found = self._core.read_namespaced_config_map(
                        name, self._namespace, _request_timeout=TIMEOUT_S
                    )
                if output := (found.data or {}).get(f"{PREFIX}OUTPUT"):
                    return str(output).rstrip("/")
        raise InvalidRequest(f"the template sets no {PREFIX}OUTPUT", field="template")

    def _pods(self, job: str) -> list[str]:
        """Of those that have begun, oldest first."""
        with _told(f"pods of {job}"):
            listed = self._core.list_namespaced_pod(
                self._namespace,
                label_selector=f"batch.kubernetes.io/job-name={job}",
                _request_timeout=TIMEOUT_S,
            )
        begun = [pod for pod in listed.items if pod.status.phase != "Pending"]
        begun.sort(key=lambda pod: pod.metadata.creation_timestamp)
        return [pod.metadata.name for pod in begun]

    def _log(self, pod: str) -> Iterator[str]:
        with _told(f"log of {pod}"):
            answer = self._core.read_namespaced_pod_log(
                pod, self._namespace, container=CONTAINER, follow=True, _preload_content=False
            )
            left = b""
            for piece in answer.stream():
                *lines, left = (left + piece).split(b"\n")
                yield from (line.decode("utf-8", "replace") for line in lines)
            if left:
                yield left.decode("utf-8", "replace")


class _told:  # noqa: N801 - reads as a word of the with statement
    """The cluster's refusals as errors of ours."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, client.ApiException):
            raise _refusal(self._what, error) from None
        if isinstance(error, HTTPError):
            raise MultiverseError(f"{self._what}: the cluster does not answer ({error})") from None


def _refusal(what: str, error: client.ApiException) -> MultiverseError:
    if error.status == 404:
        return NotFound(f"{what} is not there")
    if error.status == 409:
        return InvalidRequest(f"{what} is there already; cancel it, or take another name")
    if error.status == 403:
        return InvalidRequest(f"{what}: you may not; see trainer.submitters of the chart")
    return MultiverseError(f"{what}: {error.status} {error.reason}")
