"""Values of workers: one block for each model, over common defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, WithJsonSchema

from deploy.generator.described import secrets_schema, settings_schema
from deploy.generator.processes import WORKER
from deploy.generator.values.base import (
    DisruptionBudget,
    Image,
    Pod,
    Quantity,
    Resources,
    SecretKey,
    Values,
    resources,
)

ModelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?$")]
WorkerSettingsValues = Annotated[dict[str, Any], WithJsonSchema(settings_schema(WORKER))]
WorkerSecretValues = Annotated[dict[str, Any], WithJsonSchema(secrets_schema(WORKER))]


class ImageSource(Values):
    """The model is part of the image."""

    path: str = Field("", description="model directory in the image")


class ClaimSource(Values):
    """The model lies on a volume."""

    claim: str = Field("", description="PersistentVolumeClaim that exists; mounted read-only")
    path: str = Field("", description="model directory in it")


class HubSource(Values):
    """An init container fetches the model from a hub."""

    repo: str = Field("", description="repository, such as owner/name")
    revision: str = Field("main", description="branch, tag or commit; a commit never changes")
    endpoint: str = Field("", description="URL of another hub")
    token: SecretKey = SecretKey(key="token")


class ObjectStoreSource(Values):
    """An init container fetches the model from an S3-compatible store."""

    uri: str = Field("", description="s3://bucket/prefix")
    endpoint: str = Field("", description="URL of the store; AWS if left out")
    region: str = Field("", description="region of the bucket")
    credentials_secret: str = Field(
        "", description="Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )


class Source(Values):
    """Where a model comes from: exactly one."""

    image: ImageSource = ImageSource()
    pvc: ClaimSource = ClaimSource()
    hub: HubSource = HubSource()
    object_store: ObjectStoreSource = ObjectStoreSource()


class Worker(Pod):
    """Replicas of one model."""

    engine: Literal["llamacpp", "sglang", "sim"] = Field("llamacpp", description="what computes")
    image: Image = Field(Image(), description="multiverse/worker-<engine> if left out")
    replicas: int = Field(1, ge=0, description="replicas of the model")
    source: Source = Source()
    weights: str = Field("", description="GGUF file in the model directory, for llamacpp")
    gpus: int = Field(0, ge=0, description="GPUs of each replica")
    gpu_resource: str = Field("nvidia.com/gpu", description="what a GPU is called by the cluster")
    tensor_parallel: int = Field(1, ge=1, description="GPUs that share the model (sglang)")
    runtime_class: str = Field("", description="name of a RuntimeClass")
    strategy: Literal["Recreate", "RollingUpdate"] = Field(
        "RollingUpdate",
        description="RollingUpdate replaces one by one and never has more pods than replicas, "
        "so it needs no spare GPU; Recreate ends all first",
    )
    startup_seconds: int = Field(600, ge=10, description="a model may load for so long")
    scratch_size: Quantity = Field("20Gi", description="converted weights and fetched models")
    shared_memory: Quantity = Field("1Gi", description="/dev/shm, which sglang's processes share")
    disruption_budget: DisruptionBudget = DisruptionBudget()
    settings: WorkerSettingsValues = Field({}, description="settings of the process")
    secret_settings: WorkerSecretValues = Field(
        {}, description="secret settings, each as {secret, key}"
    )
    resources: Resources = resources("2", "4Gi", "4", "8Gi")


Models = dict[ModelName, Worker]
