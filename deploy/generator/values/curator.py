"""Values of the curator: an API and Celery workers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from deploy.generator.described import settings_schema
from deploy.generator.processes import CURATOR
from deploy.generator.values.base import (
    Image,
    Pod,
    Quantity,
    Resources,
    SecretKey,
    Values,
    resources,
)

CuratorSettingsValues = Annotated[dict[str, Any], WithJsonSchema(settings_schema(CURATOR))]


class Keda(Values):
    """Lets KEDA make as many workers as the queue needs."""

    enabled: bool = Field(False, description="make a ScaledObject")
    min_replicas: int = Field(0, ge=0, description="fewest workers")
    max_replicas: int = Field(10, ge=1, description="most workers")
    samples_per_worker: int = Field(32, ge=1, description="messages in the queue for each worker")


class CuratorApi(Pod):
    """The API and its page."""

    replicas: int = Field(1, ge=1, description="replicas of the API")
    resources: Resources = resources("250m", "512Mi", "1", "1Gi")


class CuratorWorker(Pod):
    """What takes samples through their stages."""

    replicas: int = Field(1, ge=0, description="workers; ignored with KEDA")
    keda: Keda = Keda()
    resources: Resources = resources("500m", "1Gi", "2", "2Gi")


class Curator(Values):
    """Chains of thought to training data; needs Redis and a database."""

    enabled: bool = Field(False, description="make the API and its workers")
    image: Image = Image(repository="multiverse/curator")
    database: SecretKey = SecretKey(key="url")
    api_keys: SecretKey = SecretKey(key="keys")
    teachers: SecretKey = SecretKey(key="teachers.toml")
    teacher_keys: dict[str, SecretKey] = Field(
        {}, description="variable that a teacher's api_key_env names: {secret, key}"
    )
    claim: str = Field("", description="PersistentVolumeClaim of datasets, shared by all replicas")
    scratch_size: Quantity = Field("2Gi", description="uploads on their way, and without a claim")
    settings: CuratorSettingsValues = Field({}, description="settings of the processes")
    api: CuratorApi = CuratorApi()
    worker: CuratorWorker = CuratorWorker()
