"""Values of the router."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from deploy.generator.described import secrets_schema, settings_schema
from deploy.generator.processes import ROUTER
from deploy.generator.values.base import (
    DisruptionBudget,
    Image,
    Labels,
    Pod,
    Resources,
    SecretKey,
    Values,
    resources,
)

RouterSettingsValues = Annotated[dict[str, Any], WithJsonSchema(settings_schema(ROUTER))]
RouterSecretValues = Annotated[dict[str, Any], WithJsonSchema(secrets_schema(ROUTER))]


class RouterService(Values):
    """How the router is reached in the cluster."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        "ClusterIP", description="kind of Service"
    )
    http_port: int = Field(8000, ge=1, le=65535, description="port of the HTTP APIs")
    grpc_port: int = Field(8001, ge=1, le=65535, description="port of the gRPC API")
    annotations: Labels = Field({}, description="of the Service")


class Autoscaling(Values):
    """A HorizontalPodAutoscaler over CPU."""

    enabled: bool = Field(False, description="let the number of routers follow their load")
    min_replicas: int = Field(2, ge=1, description="fewest")
    max_replicas: int = Field(10, ge=1, description="most")
    target_cpu: int = Field(70, ge=1, le=100, description="percent of the requested CPU")
    scale_down_seconds: int = Field(300, ge=0, description="so long the load must stay low")


class Router(Pod):
    """The public APIs and the fork-join coordinator."""

    image: Image = Image(repository="multiverse/router")
    replicas: int = Field(2, ge=1, description="routers; ignored with autoscaling")
    discovery: Literal["kubernetes", "static"] = Field(
        "kubernetes",
        description="kubernetes watches EndpointSlices and knows every replica; static asks DNS "
        "for one of each model and needs no rights",
    )
    autoscaling: Autoscaling = Autoscaling()
    disruption_budget: DisruptionBudget = DisruptionBudget()
    service: RouterService = RouterService()
    api_keys: SecretKey = SecretKey(key="keys")
    settings: RouterSettingsValues = Field({}, description="settings of the process")
    secret_settings: RouterSecretValues = Field(
        {}, description="secret settings, each as {secret, key}"
    )
    service_account_annotations: Labels = Field({}, description="of the ServiceAccount")
    resources: Resources = resources("1", "1Gi", "2", "2Gi")
