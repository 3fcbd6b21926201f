"""From settings to a discovery. A library is imported when its kind is chosen."""

from __future__ import annotations

from multiverse_router.fleet.discovery.source import Discovery, StaticList
from multiverse_router.settings import DiscoveryKind, RouterSettings
from multiverse_shared.errors import InvalidRequest


def discovery(settings: RouterSettings) -> Discovery:
    """InvalidRequest names the setting that is missing."""
    match settings.discovery:
        case DiscoveryKind.STATIC:
            return StaticList(settings.worker_addresses)
        case DiscoveryKind.REDIS:
            from multiverse_router.fleet.discovery.registry import RedisRegistry

            url = settings.redis_url.get_secret_value()
            if not url:
                raise InvalidRequest(
                    "discovery redis needs MULTIVERSE_ROUTER_REDIS_URL", field="redis_url"
                )
            return RedisRegistry(url)
        case DiscoveryKind.KUBERNETES:
            from multiverse_router.fleet.discovery.kubernetes import KubernetesEndpoints

            return KubernetesEndpoints.of(settings)
