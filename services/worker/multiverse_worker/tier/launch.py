"""From settings to a running tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from multiverse_shared.errors import InvalidRequest
from multiverse_worker.tier.backend import Backend
from multiverse_worker.tier.settings import TierSettings
from multiverse_worker.tier.transfer import Transfer

if TYPE_CHECKING:
    from multiverse_worker.tier.tier import Tier


def launch_tier(settings: TierSettings) -> Tier | None:
    """None without `tier_url`. InvalidRequest names the setting that is wrong.

    A tier that does not answer is no error: it is asked again later.
    """
    if not settings.tier_url:
        return None
    try:  # its packages are an extra
        from multiverse_worker.tier.block import BlockForm
        from multiverse_worker.tier.client import ClientOptions
        from multiverse_worker.tier.tier import Tier

        secret = settings.tier_secret.get_secret_value().encode()
        form = BlockForm(settings.tier_zstd_level, secret)
        options = ClientOptions(settings.tier_timeout_s, settings.tier_in_flight_mib << 20)
        return Tier(lambda: _backend(settings), form, options)
    except ModuleNotFoundError as error:
        raise InvalidRequest(
            f"the tier needs {error.name}: pip install 'multiverse-worker[tier]'", field="tier_url"
        ) from None
    except ValueError as error:
        raise InvalidRequest(f"tier_url: {error}", field="tier_url") from None


def launch_transfer(settings: TierSettings) -> Transfer:
    """As `launch_tier`, with what the engine has to know beside it."""
    tier = launch_tier(settings)
    return Transfer(tier, settings.tier_fetch == "always", settings.tier_prefixes)


def _backend(settings: TierSettings) -> Backend:
    url, timeout = settings.tier_url, settings.tier_timeout_s
    if url.startswith("mooncake://"):
        from multiverse_worker.tier.mooncake_backend import MooncakeBackend, open_store

        return MooncakeBackend(open_store(url, settings.tier_cap_mib << 20))
    from multiverse_worker.tier.redis_backend import RedisBackend

    return RedisBackend(url, settings.tier_cap_mib << 20, settings.tier_ttl_s, timeout)
