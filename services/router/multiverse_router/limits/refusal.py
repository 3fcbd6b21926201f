"""What a tenant is told that has used up a limit."""

from __future__ import annotations

from multiverse_shared.api_keys import Allowance
from multiverse_shared.errors import CapacityExceeded


def used_up(kind: str, tenant: str, allowance: Allowance, wait_s: float) -> CapacityExceeded:
    """`kind` is the name of a limit of `allowance`."""
    most = getattr(allowance, kind)
    if kind == "concurrency":
        text = (
            f"{tenant} has as many requests in flight as its keys allow ({most}); "
            "wait for one to end"
        )
    else:
        text = f"{tenant} has used up its {most} {kind} a minute; try again later"
    return CapacityExceeded(text, retry_after_s=wait_s)
