"""What every render must keep to. Each check yields what is wrong, with the object's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.deploy.helm import Object
from tests.deploy.objects import Container, PodSpec, containers, name_of, of_kind, pods, selects

Check = Callable[[list[Object]], Iterator[str]]
_SECRET_NAMES = re.compile(r"(?i)(password|secret|token|api_?key|context_key|credential)")


def _each_pod(check: Callable[[PodSpec], Iterator[str]]) -> Check:
    return lambda rendered: (wrong for pod in pods(rendered) for wrong in check(pod))


def _each_container(check: Callable[[Container], Iterator[str]]) -> Check:
    return _each_pod(lambda pod: (wrong for one in containers(pod) for wrong in check(one)))


def _restricted_pod(pod: PodSpec) -> Iterator[str]:
    context = pod.spec.get("securityContext", {})
    if context.get("runAsNonRoot") is not True or not context.get("runAsUser"):
        yield f"{pod.owner} may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield f"{pod.owner} has no seccomp profile"
    for key in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.spec.get(key):
            yield f"{pod.owner} uses {key}"
    for volume in pod.spec.get("volumes", []):
        if "hostPath" in volume:
            yield f"{pod.owner} mounts a path of the node"


def _restricted_container(container: Container) -> Iterator[str]:
    context = container.spec.get("securityContext", {})
    if context.get("readOnlyRootFilesystem") is not True:
        yield f"{container.where} may write to its root file system"
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{container.where} may gain privileges"
    if context.get("runAsNonRoot") is not True:
        yield f"{container.where} may run as root"
    if context.get("capabilities", {}) != {"drop": ["ALL"]} or context.get("privileged"):
        yield f"{container.where} has capabilities"


def _bounded(container: Container) -> Iterator[str]:
    for kind in ("requests", "limits"):
        for resource in ("cpu", "memory"):
            if not container.spec.get("resources", {}).get(kind, {}).get(resource):
                yield f"{container.where} has no {kind} of {resource}"


def _probed(container: Container) -> Iterator[str]:
    if container.is_service:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe not in container.spec:
                yield f"{container.where} has no {probe}"


def _no_inlined_secret(rendered: list[Object]) -> Iterator[str]:
    for found in of_kind(rendered, "Secret"):
        yield f"{name_of(found)} is in the chart"
    for pod in pods(rendered):
        for container in containers(pod):
            for variable in container.spec.get("env", []):
                if _SECRET_NAMES.search(variable["name"]) and "value" in variable:
                    yield f"{container.where} has {variable['name']} in the clear"
    for found in of_kind(rendered, "ConfigMap"):
        for key, value in found.get("data", {}).items():
            if _SECRET_NAMES.search(key) and not key.endswith("_FILE"):
                yield f"{name_of(found)} has {key}={value}"


def _own_account(pod: PodSpec) -> Iterator[str]:
    if pod.spec.get("serviceAccountName", "default") == "default":
        yield f"{pod.owner} runs as the namespace's default account"
    if "automountServiceAccountToken" not in pod.spec:
        yield f"{pod.owner} does not say whether it needs the API"


def _pinned_image(container: Container) -> Iterator[str]:
    image = container.spec["image"]
    if "@sha256:" not in image and (
        ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    ):
        yield f"{container.where} runs {image}, which may change"


def _known_callers(rendered: list[Object]) -> Iterator[str]:
    """Every Service's pods have a policy that lets somebody in, at each port, and not everybody."""
    policies = list(of_kind(rendered, "NetworkPolicy"))
    for service in of_kind(rendered, "Service"):
        for pod in pods(rendered):
            if not selects(service["spec"]["selector"], pod.labels):
                continue
            rules = [rule for policy in policies for rule in _ingress(policy, pod.labels)]
            if not rules:
                yield f"{name_of(service)} has no NetworkPolicy that names its callers"
            if any(not rule.get("from") or not rule.get("ports") for rule in rules):
                yield f"{name_of(service)} is open to all callers or at all ports"
            open_ports = {port["port"] for rule in rules for port in rule.get("ports", [])}
            for port in service["spec"]["ports"]:
                if port["targetPort"] not in open_ports:
                    yield f"{name_of(service)} port {port['name']} lets nobody in"


def _ingress(policy: Object, labels: dict[str, str]) -> list[dict[str, Any]]:
    selector = policy["spec"]["podSelector"].get("matchLabels", {})
    return policy["spec"].get("ingress", []) if selects(selector, labels) else []


def _denied_by_default(rendered: list[Object]) -> Iterator[str]:
    denied = [
        policy["spec"]["podSelector"]["matchLabels"]
        for policy in of_kind(rendered, "NetworkPolicy")
        if set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
        and not policy["spec"].get("ingress")
        and not policy["spec"].get("egress")
    ]
    for pod in pods(rendered):
        if not any(selects(selector, pod.labels) for selector in denied):
            yield f"{pod.owner} is not under a policy that denies"


def _graceful(rendered: list[Object]) -> Iterator[str]:
    """What answers has time for the longest answer, and leaves its Services first."""
    configs = {found["metadata"]["name"]: found["data"] for found in of_kind(rendered, "ConfigMap")}
    for pod in pods(rendered):
        for container in containers(pod):
            if container.spec["name"] not in ("router", "worker"):
                continue
            [source] = container.spec["envFrom"]
            config = configs[source["configMapRef"]["name"]]
            grace = next(float(config[key]) for key in config if key.endswith("SHUTDOWN_GRACE_S"))
            sleep = container.spec.get("lifecycle", {}).get("preStop", {}).get("sleep", {})
            if pod.spec["terminationGracePeriodSeconds"] < grace + sleep.get("seconds", 0) + 10:
                yield f"{container.where} is killed before its answers may end"
            if not sleep:
                yield f"{container.where} gets SIGTERM while it is still called"


def _restarted_by_config(rendered: list[Object]) -> Iterator[str]:
    for pod in pods(rendered):
        if pod.is_service and "checksum/config" not in pod.annotations:
            yield f"{pod.owner} does not restart when its configuration changes"


def _spread(rendered: list[Object]) -> Iterator[str]:
    for pod in pods(rendered):
        if pod.is_service and not pod.spec.get("topologySpreadConstraints"):
            yield f"{pod.owner} is not spread"


def _no_spare_gpu(rendered: list[Object]) -> Iterator[str]:
    """A rollout that needs more GPUs than there are waits for ever."""
    for found in of_kind(rendered, "Deployment"):
        strategy = found["spec"]["strategy"]
        surge = strategy.get("rollingUpdate", {}).get("maxSurge", 0)
        name = found["spec"]["template"]["spec"]["containers"][0]["name"]
        if name == "worker" and strategy["type"] != "Recreate" and surge != 0:
            yield f"{name_of(found)} needs spare GPUs for a rollout"


def _monitored(rendered: list[Object]) -> Iterator[str]:
    """Where there are ServiceMonitors, each finds its port, and none of ours is left out."""
    monitors, found = list(of_kind(rendered, "ServiceMonitor")), list[dict[str, str]]()
    for monitor in monitors:
        wanted = {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]}
        mine = [
            service
            for service in of_kind(rendered, "Service")
            if selects(monitor["spec"]["selector"]["matchLabels"], service["metadata"]["labels"])
            and wanted <= {port["name"] for port in service["spec"]["ports"]}
        ]
        if not mine:
            yield f"{name_of(monitor)} finds no Service with port {', '.join(sorted(wanted))}"
        found += [service["spec"]["selector"] for service in mine]
    for pod in pods(rendered) if monitors else ():
        ours = pod.spec["containers"][0]["name"] != "redis"
        if pod.is_service and ours and not any(selects(one, pod.labels) for one in found):
            yield f"{pod.owner} is not monitored"


def _least_rights(rendered: list[Object]) -> Iterator[str]:
    for found in rendered:
        if found["kind"] in ("ClusterRole", "ClusterRoleBinding"):
            yield f"{name_of(found)} reaches beyond the namespace"
        for rule in found.get("rules", []) if found["kind"] == "Role" else []:
            if "*" in rule["verbs"] + rule["resources"] + rule["apiGroups"]:
                yield f"{name_of(found)} may do anything with something"
            if "secrets" in rule["resources"]:
                yield f"{name_of(found)} may read Secrets"


CHECKS: dict[str, Check] = {
    "restricted_pods": _each_pod(_restricted_pod),
    "restricted_containers": _each_container(_restricted_container),
    "requests_and_limits": _each_container(_bounded),
    "probes": _each_container(_probed),
    "no_inlined_secret": _no_inlined_secret,
    "own_accounts": _each_pod(_own_account),
    "pinned_images": _each_container(_pinned_image),
    "known_callers": _known_callers,
    "denied_by_default": _denied_by_default,
    "graceful_ends": _graceful,
    "restarted_by_config": _restarted_by_config,
    "spread": _spread,
    "no_spare_gpu": _no_spare_gpu,
    "least_rights": _least_rights,
    "monitored": _monitored,
}


def violations(rendered: list[Object]) -> list[str]:
    """All that is wrong, each with the name of its check."""
    return [f"{name}: {wrong}" for name, check in CHECKS.items() for wrong in check(rendered)]
