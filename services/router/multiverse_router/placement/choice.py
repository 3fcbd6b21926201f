"""The policies by name, as settings give them."""

from __future__ import annotations

from enum import StrEnum

from multiverse_router.placement.auto import AutoOptions, AutoRoots, AutoSiblings
from multiverse_router.placement.least_load import LeastLoad
from multiverse_router.placement.policy import Policy, RootPolicy, SiblingPolicy
from multiverse_router.placement.prefix_affinity import PrefixAffinity
from multiverse_router.placement.round_robin import RoundRobin
from multiverse_router.placement.siblings import Local, Spread


class Roots(StrEnum):
    """Where a request starts."""

    ROUND_ROBIN = "round_robin"
    LEAST_LOAD = "least_load"
    PREFIX_AFFINITY = "prefix_affinity"
    AUTO = "auto"


class Siblings(StrEnum):
    """Where the paths of a fork run."""

    LOCAL = "local"
    SPREAD = "spread"
    AUTO = "auto"


def policy(
    roots: Roots, siblings: Siblings, auto: AutoOptions | None = None, seed: int = 0
) -> Policy:
    """A policy; one for each fleet, since it may have state."""
    return Policy(_roots(roots, seed, auto), _siblings(siblings, seed, auto))


def _roots(name: Roots, seed: int, auto: AutoOptions | None) -> RootPolicy:
    match name:
        case Roots.ROUND_ROBIN:
            return RoundRobin()
        case Roots.LEAST_LOAD:
            return LeastLoad(seed)
        case Roots.PREFIX_AFFINITY:
            return PrefixAffinity(seed)
        case Roots.AUTO:
            return AutoRoots(seed, auto)


def _siblings(name: Siblings, seed: int, auto: AutoOptions | None) -> SiblingPolicy:
    match name:
        case Siblings.LOCAL:
            return Local(seed)
        case Siblings.SPREAD:
            return Spread(seed)
        case Siblings.AUTO:
            return AutoSiblings(seed, auto)
