"""What all parts of the values have in common."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9.]+[A-Za-z]*$")] | int
Cidr = Annotated[str, StringConstraints(pattern=r"^[0-9a-fA-F.:]+/[0-9]+$")]
Labels = dict[str, str]


class Values(BaseModel):
    """In the chart its fields are in camel case; others are refused."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class Image(Values):
    """Which image."""

    repository: str = Field("", description="name of the image, without registry")
    tag: str = Field("", description="the chart's appVersion if left out")
    digest: str = Field("", description="sha256:...; goes before the tag")


class SecretKey(Values):
    """A key of a Secret that exists already."""

    secret: str = Field("", description="name of a Secret that exists; none if left out")
    key: str = Field("", description="key in it")


class Resources(Values):
    """What a container asks for and may have at most."""

    requests: dict[str, Quantity] = Field({}, description="what is set aside")
    limits: dict[str, Quantity] = Field({}, description="what is never exceeded")


class Toleration(Values):
    """As in a pod."""

    key: str = ""
    operator: Literal["Exists", "Equal"] = "Equal"
    value: str = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: int | None = None


class Affinity(Values):
    """As in a pod."""

    node_affinity: dict[str, Any] = Field({}, description="as in a pod")
    pod_affinity: dict[str, Any] = Field({}, description="as in a pod")
    pod_anti_affinity: dict[str, Any] = Field({}, description="as in a pod")


class Spread(Values):
    """Over which domains pods of one kind are spread."""

    enabled: bool = Field(True, description="spread pods of one kind")
    keys: list[str] = Field(
        ["topology.kubernetes.io/zone", "kubernetes.io/hostname"], description="labels of nodes"
    )
    max_skew: int = Field(1, ge=1, description="largest difference between two domains")
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = Field(
        "ScheduleAnyway", description="what happens when that can't be kept"
    )


class Pod(Values):
    """Where pods run, and what they carry."""

    resources: Resources
    node_selector: Labels = Field({}, description="labels that a node must have")
    tolerations: list[Toleration] = Field([], description="taints that are tolerated")
    affinity: Affinity = Affinity()
    topology_spread: Spread = Spread()
    priority_class: str = Field("", description="name of a PriorityClass")
    pod_labels: Labels = Field({}, description="further labels")
    pod_annotations: Labels = Field({}, description="further annotations")
    env: Labels = Field({}, description="further environment variables; no secrets")


class DisruptionBudget(Values):
    """How many pods may be missing while nodes are drained."""

    enabled: bool = Field(True, description="make a PodDisruptionBudget")
    max_unavailable: int | str = Field(1, description="number or percentage")


def resources(cpu: str, memory: str, most_cpu: str, most_memory: str) -> Resources:
    """Requests and limits of the usual two kinds."""
    return Resources(
        requests={"cpu": cpu, "memory": memory}, limits={"cpu": most_cpu, "memory": most_memory}
    )
