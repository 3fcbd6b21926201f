"""Workers behind Kubernetes services, by their EndpointSlices.

    list      all slices of the services, with a resource version
    watch     what changes from that version on, for at most WATCH_S; then list again
    410       the version is too old: list again at once
    failure   list again after a pause that doubles up to MOST_PAUSE_S

What a watch missed is corrected by the next list, after WATCH_S at the latest. A slice with a
deletionTimestamp counts as gone, and an endpoint that terminates or isn't ready takes no work.
While the API server is away the last known workers stay.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, NamedTuple

from kubernetes import client, config, watch

from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import InvalidRequest

WATCH_S = 60.0
CONNECT_S = 5.0
PAUSE_S = 0.2
MOST_PAUSE_S = 10.0
_SERVICE = "kubernetes.io/service-name"

log = logging.getLogger(__name__)


class Service(NamedTuple):
    namespace: str
    name: str


class KubernetesEndpoints:
    """Reads with one thread for each service; `api` is a configured client."""

    def __init__(
        self,
        services: Iterable[Service],
        port: str,
        api: client.DiscoveryV1Api,
        watch_s: float = WATCH_S,
    ) -> None:
        self._services = tuple(services)
        self._port = port
        self._api = api
        self._watch_s = watch_s

    @classmethod
    def of(cls, settings: RouterSettings) -> KubernetesEndpoints:
        """With the account of the pod. InvalidRequest when none or no service is named."""
        services = []
        for part in filter(None, (part.strip() for part in settings.kubernetes_service.split(","))):
            namespace, _, name = part.partition("/")
            if not namespace or not name:
                raise InvalidRequest(
                    f"{part!r} is no NAMESPACE/NAME of a service", field="kubernetes_service"
                )
            services.append(Service(namespace, name))
        if not services:
            raise InvalidRequest(
                "discovery kubernetes needs MULTIVERSE_ROUTER_KUBERNETES_SERVICE",
                field="kubernetes_service",
            )
        try:
            config.load_incluster_config()
        except config.ConfigException as error:
            raise InvalidRequest(
                f"no account of a pod: {error}; use another discovery outside of Kubernetes",
                field="discovery",
            ) from None
        return cls(services, settings.kubernetes_port, client.DiscoveryV1Api())

    async def watch(self) -> AsyncIterator[frozenset[str]]:
        loop = asyncio.get_running_loop()
        news = asyncio.Event()
        found: dict[Service, frozenset[str]] = {}
        ended = threading.Event()

        def follow(service: Service) -> None:
            """In a thread."""
            for addresses in self._follow(service, ended):

                def tell(addresses: frozenset[str] = addresses) -> None:
                    found[service] = addresses
                    news.set()

                if ended.is_set():
                    return
                loop.call_soon_threadsafe(tell)

        for service in self._services:
            name = f"endpoints of {service.name}"
            threading.Thread(target=follow, args=[service], name=name, daemon=True).start()
        try:
            while True:
                await news.wait()
                news.clear()
                if len(found) == len(self._services):  # else some would seem to have left
                    yield frozenset().union(*found.values())
        finally:
            ended.set()

    def _follow(self, service: Service, ended: threading.Event) -> Iterator[frozenset[str]]:
        """The addresses of a service, each time they may have changed."""
        pause = PAUSE_S
        while not ended.is_set():
            try:
                slices, version = self._list(service)
                yield _addresses(slices.values(), self._port)
                for _ in self._changes(service, slices, version):
                    pause = PAUSE_S
                    if ended.is_set():
                        return
                    yield _addresses(slices.values(), self._port)
                pause = PAUSE_S
            except client.ApiException as error:
                if error.status == 410:
                    continue
                log.warning("endpoints of %s: %s %s", service.name, error.status, error.reason)
                ended.wait(pause)
                pause = min(MOST_PAUSE_S, 2 * pause)
            except Exception as error:  # of the library or below it: whatever it is may not last
                log.warning("endpoints of %s: %r", service.name, error)
                ended.wait(pause)
                pause = min(MOST_PAUSE_S, 2 * pause)

    def _list(self, service: Service) -> tuple[dict[str, Any], str]:
        answer = self._api.list_namespaced_endpoint_slice(
            service.namespace,
            label_selector=f"{_SERVICE}={service.name}",
            _request_timeout=(CONNECT_S, CONNECT_S),
        )
        return {part.metadata.name: part for part in answer.items}, answer.metadata.resource_version

    def _changes(self, service: Service, slices: dict[str, Any], version: str) -> Iterator[None]:
        """Keep `slices` up to date until the watch ends."""
        events = watch.Watch().stream(
            self._api.list_namespaced_endpoint_slice,
            service.namespace,
            label_selector=f"{_SERVICE}={service.name}",
            resource_version=version,
            timeout_seconds=max(1, int(self._watch_s)),
            _request_timeout=(CONNECT_S, self._watch_s + CONNECT_S),
        )
        for event in events:
            part = event["object"]
            if event["type"] == "DELETED":
                slices.pop(part.metadata.name, None)
            else:
                slices[part.metadata.name] = part
            yield


def _addresses(slices: Iterable[Any], port: str) -> frozenset[str]:
    """host:port of every endpoint that is ready."""
    found: set[str] = set()
    for part in slices:
        if part.metadata.deletion_timestamp is not None:
            continue
        number = next((p.port for p in part.ports or () if p.name == port), None)
        if number is None:
            continue
        for endpoint in part.endpoints or ():
            state = endpoint.conditions
            if state is not None and (state.ready is False or state.terminating):
                continue
            for address in endpoint.addresses or ():
                host = f"[{address}]" if part.address_type == "IPv6" else address
                found.add(f"{host}:{number}")
    return frozenset(found)
