"""Workers in EndpointSlices: whatever the API server does, the fleet is right after one resync."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from multiverse_router.fleet.discovery.kubernetes import KubernetesEndpoints, Service
from multiverse_router.fleet.fleet import Fleet
from multiverse_router.settings import RouterSettings
from tests.integration.router.kube_api import KubeApi, endpoint_slice, kube_api

RESYNC_S = 1.0
WITHIN_S = 20.0  # a resync, on a loaded machine


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - of any state, not of one event
            await asyncio.sleep(0.01)


class Seen:
    """What the discovery said last."""

    def __init__(self) -> None:
        self.addresses: frozenset[str] | None = None
        self.times = 0


@asynccontextmanager
async def watching(api: KubeApi) -> AsyncIterator[Seen]:
    seen = Seen()

    async def watch() -> None:
        services = [Service("models", "workers")]
        async for addresses in KubernetesEndpoints(
            services, "grpc", api.client(), RESYNC_S
        ).watch():
            seen.addresses = addresses
            seen.times += 1

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])


def at(*hosts: str) -> frozenset[str]:
    return frozenset(f"{host}:7071" for host in hosts)


async def test_endpoints_that_come_and_go_are_followed() -> None:
    with kube_api() as api:
        api.put(endpoint_slice("a", "10.0.0.1", "10.0.0.2"))
        async with watching(api) as seen:
            await until(lambda: seen.addresses == at("10.0.0.1", "10.0.0.2"))
            api.put(endpoint_slice("b", "10.0.0.3"))
            await until(lambda: seen.addresses == at("10.0.0.1", "10.0.0.2", "10.0.0.3"))
            api.put(endpoint_slice("a", "10.0.0.1", "10.0.0.2", unready=("10.0.0.2",)))
            await until(lambda: seen.addresses == at("10.0.0.1", "10.0.0.3"))
            api.delete("b")
            await until(lambda: seen.addresses == at("10.0.0.1"))


async def test_a_slice_that_is_being_deleted_counts_as_gone() -> None:
    with kube_api() as api:
        api.put(endpoint_slice("a", "10.0.0.1"))
        api.put(endpoint_slice("b", "10.0.0.2"))
        async with watching(api) as seen:
            await until(lambda: seen.addresses == at("10.0.0.1", "10.0.0.2"))
            api.put(endpoint_slice("b", "10.0.0.2", deleted=True))
            await until(lambda: seen.addresses == at("10.0.0.1"))


async def test_a_delete_that_no_watch_told_is_found_by_the_next_list() -> None:
    with kube_api() as api:
        api.put(endpoint_slice("a", "10.0.0.1"))
        api.put(endpoint_slice("b", "10.0.0.2"))
        async with watching(api) as seen:
            await until(lambda: seen.addresses == at("10.0.0.1", "10.0.0.2"))
            api.miss_deletes = True
            api.delete("b")
            lists = api.lists
            await until(lambda: seen.addresses == at("10.0.0.1"))
            assert api.lists > lists


async def test_a_watch_that_is_dropped_is_begun_again() -> None:
    with kube_api() as api:
        api.put(endpoint_slice("a", "10.0.0.1"))
        async with watching(api) as seen:
            await until(lambda: seen.addresses == at("10.0.0.1"))
            for number in range(2, 5):
                api.drop_watches()
                api.put(endpoint_slice("a", f"10.0.0.{number}"))
                await until(lambda number=number: seen.addresses == at(f"10.0.0.{number}"))


async def test_a_version_that_is_too_old_is_listed_anew() -> None:
    with kube_api() as api:
        api.put(endpoint_slice("a", "10.0.0.1"))
        async with watching(api) as seen:
            await until(lambda: seen.addresses == at("10.0.0.1"))
            api.miss_deletes = True
            api.delete("a")
            api.put(endpoint_slice("b", "10.0.0.2"))
            api.forget_versions()
            await until(lambda: seen.addresses == at("10.0.0.2"))


@pytest.mark.parametrize("status", [410, 429, 500, 504])
async def test_while_the_server_fails_the_known_workers_stay(status: int) -> None:
    with kube_api() as api:
        api.put(endpoint_slice("a", "10.0.0.1"))
        async with watching(api) as seen:
            await until(lambda: seen.addresses == at("10.0.0.1"))
            api.fail_lists = [status] * 3
            api.drop_watches()
            await until(lambda: not api.fail_lists)
            assert seen.addresses == at("10.0.0.1")
            api.put(endpoint_slice("a", "10.0.0.9"))
            await until(lambda: seen.addresses == at("10.0.0.9"))


async def test_the_fleet_follows_the_endpoints() -> None:
    with kube_api() as api:
        api.put(endpoint_slice("a", "127.0.0.1", port=1))
        source = KubernetesEndpoints([Service("models", "workers")], "grpc", api.client(), RESYNC_S)
        fleet = Fleet(RouterSettings(), source)
        running = asyncio.create_task(fleet.run())
        try:
            await until(lambda: [w.address for w in fleet.workers] == ["127.0.0.1:1"])
            api.put(endpoint_slice("a", "127.0.0.1", port=2))
            await until(lambda: [w.address for w in fleet.workers] == ["127.0.0.1:2"])
            api.miss_deletes = True
            api.delete("a")
            await until(lambda: not fleet.workers)
        finally:
            running.cancel()
            await asyncio.wait([running])
