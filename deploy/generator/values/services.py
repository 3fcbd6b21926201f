"""Values of what stands beside router and workers: Redis and the trainer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from deploy.generator.described import settings_schema
from deploy.generator.processes import TRAINER
from deploy.generator.values.base import (
    Image,
    Pod,
    Quantity,
    Resources,
    SecretKey,
    Values,
    resources,
)

TrainerSettingsValues = Annotated[dict[str, Any], WithJsonSchema(settings_schema(TRAINER))]


class Persistence(Values):
    """A volume of its own."""

    enabled: bool = Field(False, description="keep data on a volume")
    size: Quantity = Field("8Gi", description="of the volume")
    storage_class: str = Field("", description="the cluster's default if left out")


class ExternalRedis(Values):
    """A Redis that exists already."""

    host: str = Field("", description="its name or address; with it no Redis is made here")
    port: int = Field(6379, ge=1, le=65535, description="its port")
    database: int = Field(0, ge=0, description="its number")
    tls: bool = Field(False, description="connect by TLS")


class Redis(Pod):
    """Limits, registry, prefix-cache tier and the curator's queue."""

    enabled: bool = Field(False, description="make a simple Redis of one replica")
    image: Image = Image(repository="redis", tag="7.4-alpine")
    max_memory: str = Field("512mb", description="what is cached is evicted above it, oldest first")
    password: SecretKey = SecretKey(key="password")
    persistence: Persistence = Persistence()
    external: ExternalRedis = ExternalRedis()
    resources: Resources = resources("100m", "640Mi", "1", "1Gi")


class Submitter(Values):
    """Who may submit trainings."""

    kind: Literal["User", "Group", "ServiceAccount"] = "Group"
    name: str
    namespace: str = ""


class Trainer(Pod):
    """The template that `multiverse train submit` makes Jobs of."""

    enabled: bool = Field(False, description="make the template")
    image: Image = Image(repository="multiverse/trainer")
    gpus: int = Field(0, ge=0, description="GPUs; torchrun starts a process for each")
    gpu_resource: str = Field("nvidia.com/gpu", description="what a GPU is called by the cluster")
    runtime_class: str = Field("", description="name of a RuntimeClass")
    model: str = Field("/volume/model", description="model directory to start from")
    data: list[str] = Field(["/volume/data/train.jsonl"], description="files of records")
    output: str = Field("/volume/runs", description="folder; each Job has its own in it")
    claim: str = Field("", description="PersistentVolumeClaim that is mounted at /volume")
    scratch_size: Quantity = Field("20Gi", description="temporary files")
    shared_memory: Quantity = Field("1Gi", description="/dev/shm, which processes share")
    retries: int = Field(3, ge=0, description="times that a Job is started again where it was")
    keep_seconds: int = Field(604800, ge=0, description="Jobs that ended stay for so long")
    grace_seconds: int = Field(600, ge=1, description="to save after SIGTERM")
    submitters: list[Submitter] = Field([], description="who may make Jobs, and read their logs")
    settings: TrainerSettingsValues = Field({}, description="settings of the process")
    resources: Resources = resources("4", "16Gi", "8", "32Gi")
