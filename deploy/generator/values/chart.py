"""All values of the chart."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deploy.generator.values.base import Values
from deploy.generator.values.curator import Curator
from deploy.generator.values.router import Router
from deploy.generator.values.services import Redis, Trainer
from deploy.generator.values.surroundings import (
    ExternalSecrets,
    Gateway,
    HelmTest,
    Ingress,
    Monitoring,
    Mtls,
    NetworkPolicies,
)
from deploy.generator.values.worker import Models, Worker


class Images(Values):
    """Of all parts."""

    registry: str = Field("", description="goes before the name of every image")
    pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        "IfNotPresent", description="when images are pulled"
    )
    pull_secrets: list[str] = Field([], description="names of Secrets for the registry")


class ChartValues(Values):
    """Values of the chart `multiverse`."""

    name_override: str = Field("", description="in place of the chart's name")
    fullname_override: str = Field("", description="in place of release and chart name")
    images: Images = Images()
    user_id: int = Field(10001, ge=1, description="user and group of all processes")
    longest_generation_seconds: int = Field(
        600,
        ge=1,
        description="an answer may take so long; grace periods follow from it",
    )
    pre_stop_seconds: int = Field(
        5, ge=0, description="between leaving the Services and SIGTERM, so that nobody is refused"
    )
    router: Router = Router()
    worker: Worker = Field(Worker(), description="defaults for every block of `models`")
    models: Models = Field(
        {}, description="name of a model: its block, with the keys of `worker`; at least one"
    )
    redis: Redis = Redis()
    curator: Curator = Curator()
    trainer: Trainer = Trainer()
    mtls: Mtls = Mtls()
    network_policies: NetworkPolicies = NetworkPolicies()
    monitoring: Monitoring = Monitoring()
    ingress: Ingress = Ingress()
    gateway: Gateway = Gateway()
    external_secrets: ExternalSecrets = ExternalSecrets()
    test: HelmTest = HelmTest()
