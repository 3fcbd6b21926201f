"""Ways into rendered objects: pods, containers, selectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.deploy.helm import Object


class PodSpec(NamedTuple):
    """A pod that an object makes."""

    owner: str  # Kind/name
    labels: dict[str, str]
    annotations: dict[str, str]
    spec: dict[str, Any]
    is_service: bool  # runs for ever: has probes


class Container(NamedTuple):
    """One of a pod's containers."""

    where: str
    spec: dict[str, Any]
    is_service: bool


def name_of(found: Object) -> str:
    return f"{found['kind']}/{found['metadata']['name']}"


def of_kind(rendered: list[Object], kind: str) -> Iterator[Object]:
    return (found for found in rendered if found["kind"] == kind)


def pods(rendered: list[Object]) -> Iterator[PodSpec]:
    for found in rendered:
        kind = found["kind"]
        if kind == "Pod":
            template = found
        elif kind in ("Deployment", "StatefulSet", "DaemonSet", "Job"):
            template = found["spec"]["template"]
        elif kind == "CronJob":
            template = found["spec"]["jobTemplate"]["spec"]["template"]
        else:
            continue
        metadata = template.get("metadata", {})
        yield PodSpec(
            name_of(found),
            metadata.get("labels", {}),
            metadata.get("annotations", {}),
            template["spec"],
            kind in ("Deployment", "StatefulSet", "DaemonSet"),
        )


def containers(pod: PodSpec) -> Iterator[Container]:
    for container in pod.spec.get("initContainers", []):
        yield Container(f"{pod.owner} init {container['name']}", container, False)
    for container in pod.spec["containers"]:
        yield Container(f"{pod.owner} {container['name']}", container, pod.is_service)


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()
