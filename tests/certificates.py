"""Certificates for tests: an authority, and files as a mounted Secret has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import trustme


@dataclass(slots=True)
class Authority:
    """Signs certificates; each goes into a folder as tls.crt, tls.key and ca.crt."""

    ca: trustme.CA = field(default_factory=trustme.CA)

    def issue(self, folder: Path, *names: str) -> Path:
        """The folder, with a new certificate for `names` in it."""
        folder.mkdir(exist_ok=True)
        made = self.ca.issue_cert(*names)
        chain = b"".join(pem.bytes() for pem in made.cert_chain_pems)
        (folder / "tls.crt").write_bytes(chain)
        made.private_key_pem.write_to_path(str(folder / "tls.key"))
        self.ca.cert_pem.write_to_path(str(folder / "ca.crt"))
        return folder


def tls_settings(folder: Path, prefix: str = "") -> dict[str, str]:
    """Settings that name the files of `folder`: of a worker, or with `worker_` of a router."""
    return {
        f"{prefix}tls_cert_file": str(folder / "tls.crt"),
        f"{prefix}tls_key_file": str(folder / "tls.key"),
        f"{prefix}tls_ca_file": str(folder / "ca.crt"),
    }
