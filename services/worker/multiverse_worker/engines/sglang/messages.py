"""What the worker and the scheduler process say to each other.

Both run as the same user on one machine; messages are pickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from multiverse_worker.contract import BranchId, EngineInfo, Load, Logits, Update

CHANNEL_VARIABLE = "MULTIVERSE_SGLANG_CHANNEL"
"""Folder of the two sockets; without it the plugin changes nothing."""
NAMESPACE_VARIABLE = "MULTIVERSE_SGLANG_NAMESPACE"
CACHE_NAME = "multiverse"

COMMANDS_SOCKET = "commands"
REPORTS_SOCKET = "reports"
TIER_FILE = "tier"
"""Beside the sockets, which only this user can read: settings of the tier, if there is one."""


class Verb(StrEnum):
    START = "start"  # Start
    ABORT = "abort"  # BranchId
    RELEASE = "release"  # lease, number of its stream
    LOSE_STREAM = "lose_stream"  # number of the stream
    DROP_CACHED = "drop_cached"  # number that the report gives back
    OBSERVE = "observe"  # whether logits are wanted
    TICK = "tick"  # monotonic seconds


@dataclass(frozen=True, slots=True)
class Commands:
    """Goes through SGLang's own broadcast, so that all ranks do the same."""

    items: tuple[tuple[Verb, Any], ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """Logits that were computed: rows [tokens, vocab] from a linear index on."""

    branch: BranchId
    linear: int
    rows: Logits


@dataclass(frozen=True, slots=True)
class Report:
    """What has happened since the last one."""

    load: Load
    updates: tuple[Update, ...] = ()
    seen: tuple[Seen, ...] = ()
    dropped: int = 0  # number of the last DROP_CACHED that was carried out
    info: EngineInfo | None = None  # in the first report only
    refusal: str = ""  # why the scheduler can't serve branches
