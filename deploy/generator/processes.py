"""The processes that are deployed, and which of their settings whoever deploys them may choose.

The settings classes are the only source of names, types, ranges, defaults and descriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from multiverse_curator.service.settings import CuratorSettings
from multiverse_router.settings import RouterSettings
from multiverse_trainer.recipe.settings import TrainSettings
from multiverse_worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class Process:
    """A settings class, the page that documents it, and what the chart sets by itself."""

    name: str
    settings: type[BaseSettings]
    page: str
    owned: frozenset[str] = field(default_factory=frozenset)

    @property
    def prefix(self) -> str:
        """Of its environment variables."""
        return str(self.settings.model_config["env_prefix"])

    @property
    def fields(self) -> dict[str, FieldInfo]:
        """The class' own settings first, then those that it takes from others."""
        whole = self.settings.model_fields
        own = [name for name in whole if name in self.settings.__annotations__]
        return {name: whole[name] for name in [*own, *(name for name in whole if name not in own)]}

    def free(self, *, secret: bool) -> Iterator[tuple[str, FieldInfo]]:
        """Settings that values may give: as they are, or as a reference to a Secret."""
        for name, info in self.fields.items():
            if name not in self.owned and is_secret(info) is secret:
                yield name, info

    def variable(self, name: str) -> str:
        return self.prefix + name.upper()


def is_secret(info: FieldInfo) -> bool:
    """Whether a setting must not stand in a file of values."""
    kinds: list[Any] = [info.annotation, *get_args(info.annotation)]
    return SecretStr in kinds


ROUTER = Process(
    "router",
    RouterSettings,
    "docs/operations.md",
    frozenset(
        {
            *("host", "port", "grpc_port", "metrics_port", "keys", "keys_file", "redis_url"),
            *("discovery", "workers", "kubernetes_service", "kubernetes_port"),
            *("worker_tls_cert_file", "worker_tls_key_file", "worker_tls_ca_file"),
            *("worker_tls_name", "shutdown_grace_s"),
        }
    ),
)
WORKER = Process(
    "worker",
    WorkerSettings,
    "docs/worker.md",
    frozenset(
        {
            *("host", "port", "metrics_port", "model", "engine", "weights", "tensor_parallel"),
            *("tls_cert_file", "tls_key_file", "tls_ca_file", "shutdown_grace_s"),
            *("registry", "advertise"),
        }
    ),
)
TRAINER = Process(
    "trainer", TrainSettings, "docs/training.md", frozenset({"model", "data", "output"})
)
CURATOR = Process(
    "curator",
    CuratorSettings,
    "docs/curator.md",
    frozenset(
        {
            *("host", "port", "metrics_port", "database", "redis", "keys", "keys_file"),
            *("teachers_file", "input_folder", "dataset_folder"),
        }
    ),
)
PROCESSES = (ROUTER, WORKER, CURATOR, TRAINER)
