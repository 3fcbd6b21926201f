"""Who may connect to a worker: with TLS files, only peers that its authorities have signed.

The files are looked at before each handshake, so that renewed certificates need no restart.
"""

from __future__ import annotations

import logging

import grpc

from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tls import Pems, TlsFiles

log = logging.getLogger(__name__)


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """Credentials that demand a certificate of the peer. InvalidRequest for unusable files."""
    return grpc.dynamic_ssl_server_credentials(
        _configuration(files.read()), _Renewals(files), require_client_authentication=True
    )


class _Renewals:
    """Asked before each handshake: new credentials, or None while they are as before."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._known = files.read()

    def __call__(self) -> grpc.ServerCertificateConfiguration | None:
        try:
            pems = self._files.read()
        except InvalidRequest as error:
            log.warning("the certificates of before stay in use: %s", error.message)
            return None
        if pems == self._known:
            return None
        self._known = pems
        log.info("new certificates are in use: %s", self._files.certificate)
        return _configuration(pems)


def _configuration(pems: Pems) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(pems.key, pems.certificate)], root_certificates=pems.authorities
    )
