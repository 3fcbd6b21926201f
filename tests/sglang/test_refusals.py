"""An SGLang that is not what the plugin was written for is refused, with the remedy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.engines.sglang.engine import SglangEngine
from multiverse_worker.engines.sglang.launch import SglangOptions, open_engine
from multiverse_worker.engines.sglang.messages import (
    CHANNEL_VARIABLE,
    REPORTS_SOCKET,
    Report,
)
from tests.sglang.conftest import MODEL


@pytest.fixture(scope="module")
def checks() -> Any:
    from sglang.srt.plugins.hook_registry import HookRegistry

    from multiverse_worker.engines.sglang import self_check
    from multiverse_worker.engines.sglang.hooks import TARGETS, register_all

    if not {target for target, *_ in TARGETS} <= HookRegistry._patched:
        register_all()
        HookRegistry.apply_hooks()
    return self_check


def test_this_sglang_with_all_hooks_in_place_is_accepted(checks: Any) -> None:
    checks.check_hooks()


def test_another_version_is_refused(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglang.__version__", "0.5.24")
    with pytest.raises(InvalidRequest, match=r"install sglang==0\.5\.23"):
        checks.check_hooks()


def test_a_hook_that_was_not_applied_is_noticed(
    checks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sglang.srt.plugins.hook_registry import HookRegistry

    left = set(HookRegistry._patched)
    left.discard("sglang.srt.model_executor.model_runner.ModelRunner.sample")
    monkeypatch.setattr(HookRegistry, "_patched", left)
    with pytest.raises(InvalidRequest, match=r"ModelRunner\.sample was not applied"):
        checks.check_hooks()


def test_a_changed_signature_is_noticed(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sglang.srt.managers.schedule_batch import Req

    monkeypatch.setattr(Req, "update_finish_state", lambda self, tokens: None)
    with pytest.raises(InvalidRequest, match="update_finish_state takes"):
        checks.check_hooks()


def arguments(**changes: Any) -> Any:
    parts: dict[str, Any] = {
        "disaggregation_mode": "null",
        "enable_dp_attention": False,
        "enable_hierarchical_cache": True,
        "hicache_storage_backend": None,
        "hicache_host_memory_mode": "cache",
    }
    return SimpleNamespace(**{**parts, **changes})


def scheduler(cache: Any, **changes: Any) -> Any:
    parts: dict[str, Any] = {
        "tree_cache": cache,
        "page_size": 1,
        "spec_algorithm": SimpleNamespace(is_none=lambda: True),
        "server_args": arguments(),
        "request_receiver": SimpleNamespace(recv_skipper=None),
        "enable_priority_scheduling": False,
        "is_hybrid_swa": False,
        "is_hybrid_ssm": False,
    }
    return SimpleNamespace(**{**parts, **changes})


FORBIDDEN: dict[str, dict[str, Any]] = {
    "--page-size must be 1": {"page_size": 16},
    "--speculative-algorithm": {"spec_algorithm": SimpleNamespace(is_none=lambda: False)},
    "--disaggregation-mode": {"server_args": arguments(disaggregation_mode="prefill")},
    "--enable-dp-attention": {"server_args": arguments(enable_dp_attention=True)},
    "--hicache-storage-backend": {"server_args": arguments(hicache_storage_backend="file")},
    "--hicache-host-memory-mode": {
        "server_args": arguments(hicache_host_memory_mode="buffer_only")
    },
    "--scheduler-recv-interval": {"request_receiver": SimpleNamespace(recv_skipper=object())},
    "no sliding window": {"is_hybrid_swa": True},
    "no recurrent state": {"is_hybrid_ssm": True},
    "--radix-cache-backend": {"tree_cache": SimpleNamespace(disable=False)},
}


@pytest.fixture
def cache(checks: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One that is as it should be."""
    from multiverse_worker.engines.sglang.cache import ContextCache

    cache = object.__new__(ContextCache)
    cache.disable = False
    monkeypatch.setattr(ContextCache, "copies_by_slot", True)
    monkeypatch.setattr(checks, "get_parallel", lambda: SimpleNamespace(pp_size=1))
    checks.check_scheduler(scheduler(cache))
    return cache


@pytest.mark.parametrize("remedy", sorted(FORBIDDEN))
def test_options_under_which_joins_would_be_wrong_are_refused(
    checks: Any, cache: Any, remedy: str
) -> None:
    with pytest.raises(InvalidRequest, match=remedy):
        checks.check_scheduler(scheduler(cache, **FORBIDDEN[remedy]))


def test_pipeline_parallelism_is_refused(
    checks: Any, cache: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "get_parallel", lambda: SimpleNamespace(pp_size=2))
    with pytest.raises(InvalidRequest, match="--pp-size must be 1"):
        checks.check_scheduler(scheduler(cache))


def test_hicache_is_refused_where_slots_can_not_be_copied_one_by_one(
    checks: Any, cache: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(cache), "copies_by_slot", False)
    with pytest.raises(InvalidRequest, match="--enable-hierarchical-cache must not be set"):
        checks.check_scheduler(scheduler(cache))
    without = arguments(enable_hierarchical_cache=False)
    checks.check_scheduler(scheduler(cache, server_args=without))


def host_cache(**changes: Any) -> Any:
    """A cache with HiCache, as SGLang leaves it."""
    from multiverse_worker.engines.sglang.cache import ContextCache

    parts = {"backup": True, "sidecars": [], "sharded": False, "shared": None, **changes}
    pool = SimpleNamespace(shared_allocation_domain=parts["shared"])
    cache = object.__new__(ContextCache)
    cache.supports_retraction_backup = lambda: parts["backup"]
    cache.sidecar_pool_specs = parts["sidecars"]
    cache.cache_controller = SimpleNamespace(is_kv_sharded=parts["sharded"])
    cache.host_pool_group = SimpleNamespace(anchor_entry=SimpleNamespace(host_pool=pool))
    return cache


@pytest.mark.parametrize(
    "other", [{"backup": False}, {"sidecars": [1]}, {"sharded": True}, {"shared": object()}]
)
def test_a_slot_with_kv_in_several_places_of_the_host_is_noticed(other: dict[str, Any]) -> None:
    assert host_cache().copies_by_slot
    assert not host_cache(**other).copies_by_slot


def test_arguments_that_the_worker_sets_can_not_be_set_beside_it() -> None:
    with pytest.raises(InvalidRequest, match="page_size is set by the worker"):
        open_engine(SglangOptions(MODEL, more={"page_size": 16}), "x")


class Fake:
    """An SGLang whose scheduler says `report`, or nothing."""

    def __init__(self, report: Report | None) -> None:
        import os
        import pickle

        import zmq

        self.down = False
        self._socket = zmq.Context.instance().socket(zmq.PUSH)
        self._socket.connect(f"ipc://{Path(os.environ[CHANNEL_VARIABLE]) / REPORTS_SOCKET}")
        if report:
            self._socket.send(pickle.dumps(report))

    def shutdown(self) -> None:
        self.down = True
        self._socket.close(linger=0)


def test_a_refusal_of_the_scheduler_ends_sglang_and_is_told() -> None:
    from multiverse_worker.contract import Load

    started: list[Fake] = []

    def start() -> Fake:
        started.append(Fake(Report(Load(0, 0, 0, 0, 0), refusal="change this option")))
        return started[-1]

    with pytest.raises(InvalidRequest, match="change this option"):
        SglangEngine(start, "x")
    assert started[0].down


def test_an_sglang_without_the_plugin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiverse_worker.engines.sglang.engine.HELLO_S", 0.1)
    with pytest.raises(InvalidRequest, match="the plugin did not start"):
        SglangEngine(lambda: Fake(None), "x")
