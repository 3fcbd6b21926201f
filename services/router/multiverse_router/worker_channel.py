"""How a router reaches a worker: in the clear, or with certificates on both sides.

The files are read for each channel, so renewed certificates count from the next connection on.
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from multiverse_router.settings import RouterSettings


def open_channel(
    address: str, settings: RouterSettings, options: Sequence[tuple[str, int | str]]
) -> grpc.aio.Channel:
    """A channel to the worker at `address`. InvalidRequest when its files can't be used."""
    files = settings.worker_tls
    if files is None:
        return grpc.aio.insecure_channel(address, list(options))
    pems = files.read()
    named = list(options)
    if settings.worker_tls_name:
        named.append(("grpc.ssl_target_name_override", settings.worker_tls_name))
    credentials = grpc.ssl_channel_credentials(pems.authorities, pems.key, pems.certificate)
    return grpc.aio.secure_channel(address, credentials, named)
