"""Values of what connects the parts: certificates, traffic, policies, monitoring, secrets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from deploy.generator.values.base import Cidr, Labels, SecretKey, Values


class Issuer(Values):
    """Of cert-manager; it must sign for nobody else."""

    name: str = Field("", description="of an Issuer")
    kind: Literal["Issuer", "ClusterIssuer"] = Field("Issuer", description="its kind")


class CertManager(Values):
    """Lets cert-manager make and renew the certificates."""

    enabled: bool = Field(False, description="make Certificates")
    issuer: Issuer = Issuer()
    duration: str = Field("2160h", description="a certificate is good for so long")
    renew_before: str = Field("720h", description="and renewed so long before its end")


class Mtls(Values):
    """Certificates on both sides between router and workers."""

    enabled: bool = Field(False, description="demand certificates")
    router_secret: str = Field(
        "", description="Secret with tls.crt, tls.key and ca.crt; <release>-router-tls if left out"
    )
    worker_secret: str = Field(
        "", description="the same for workers; <release>-worker-tls if left out"
    )
    server_name: str = Field(
        "", description="name in the workers' certificate; workers.<release> if left out"
    )
    cert_manager: CertManager = CertManager()


class Egress(Values):
    """Addresses outside that may be reached."""

    cidrs: list[Cidr] = Field([], description="none: nothing outside")
    ports: list[int] = Field([443], description="TCP ports there")


class NetworkPolicies(Values):
    """Nothing is let in or out but what is named."""

    enabled: bool = Field(True, description="make NetworkPolicies")
    dns_namespace: Labels = Field(
        {"kubernetes.io/metadata.name": "kube-system"}, description="labels of the DNS' namespace"
    )
    client_namespaces: list[Labels] = Field(
        [{}], description="labels of namespaces whose pods may call the router; {} is all"
    )
    client_cidrs: list[Cidr] = Field([], description="addresses that may call the router")
    monitoring_namespace: Labels = Field(
        {"kubernetes.io/metadata.name": "monitoring"}, description="where Prometheus runs"
    )
    kubernetes_api: Egress = Egress(cidrs=["0.0.0.0/0"], ports=[443, 6443])
    models: Egress = Egress()
    traces: Egress = Egress(ports=[4318])
    curator: Egress = Egress()
    redis: Egress = Egress(ports=[6379])


class ServiceMonitors(Values):
    """For the Prometheus operator."""

    enabled: bool = Field(False, description="make ServiceMonitors")
    interval: str = Field("15s", description="between scrapes")
    labels: Labels = Field({}, description="that Prometheus selects by")


class Rules(Values):
    """Alerts and recording rules."""

    enabled: bool = Field(False, description="make PrometheusRules")
    labels: Labels = Field({}, description="that Prometheus selects by")


class Dashboards(Values):
    """ConfigMaps for Grafana's sidecar."""

    enabled: bool = Field(False, description="make a ConfigMap for each dashboard")
    labels: Labels = Field({"grafana_dashboard": "1"}, description="that the sidecar selects by")


class Monitoring(Values):
    """What watches it."""

    service_monitors: ServiceMonitors = ServiceMonitors()
    rules: Rules = Rules()
    dashboards: Dashboards = Dashboards()


class Ingress(Values):
    """Through an ingress controller; the annotations are those of ingress-nginx."""

    enabled: bool = Field(False, description="make Ingresses")
    class_name: str = Field("nginx", description="IngressClass")
    host: str = Field("", description="host of the HTTP APIs")
    grpc_host: str = Field("", description="host of the gRPC API; none if left out")
    tls_secret: str = Field("", description="Secret with the certificate of both")
    annotations: Labels = Field({}, description="further annotations; they go first")


class Parent(Values):
    """A Gateway that exists."""

    name: str = Field("", description="of the Gateway")
    namespace: str = Field("", description="the release's if left out")
    section: str = Field("", description="listener")


class Gateway(Values):
    """Through the Gateway API."""

    enabled: bool = Field(False, description="make an HTTPRoute (and a GRPCRoute)")
    parent: Parent = Parent()
    host: str = Field("", description="host of the HTTP APIs")
    grpc_host: str = Field("", description="host of the gRPC API; none if left out")


class Store(Values):
    """Where external-secrets finds them."""

    name: str = Field("", description="of the store")
    kind: Literal["SecretStore", "ClusterSecretStore"] = Field("SecretStore", description="kind")


class ExternalSecrets(Values):
    """Secrets that external-secrets makes from a store."""

    enabled: bool = Field(False, description="make ExternalSecrets")
    store: Store = Store()
    refresh: str = Field("1h", description="between looks at the store")
    secrets: dict[str, Labels] = Field(
        {}, description="name of a Secret: {key in it: key in the store}"
    )


class HelmTest(Values):
    """What `helm test` asks."""

    enabled: bool = Field(True, description="make the test's pod")
    prompt: str = Field("max a:7+5-3+2,b:4+9-2+5,?", description="what it asks")
    timeout_seconds: int = Field(120, ge=1, description="for both calls")
    api_key: SecretKey = SecretKey(key="api-key")
