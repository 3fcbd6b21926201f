"""The files with which a process proves who it is, and the one it knows its peers by.

Knows PEM files. Must not know gRPC or HTTP.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from multiverse_shared.errors import InvalidRequest

_READS = 3  # a mount may be replaced between the reading of two files


class Pems(NamedTuple):
    """What stands in the files."""

    certificate: bytes
    key: bytes
    authorities: bytes


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of a certificate (with its chain), its key, and the authorities that peers need."""

    certificate: Path
    key: Path
    authorities: Path

    @classmethod
    def of(cls, **files: Path | None) -> TlsFiles | None:
        """None without any file. `files`: certificate, key, authorities, by setting, in order.

        ValueError names the settings that are missing beside the others.
        """
        missing = [name for name, path in files.items() if path is None]
        if len(missing) == len(files):
            return None
        if missing:
            raise ValueError(f"{' and '.join(missing)} must be set too: TLS needs all three files")
        return cls(*(path for path in files.values() if path is not None))

    def read(self) -> Pems:
        """The files as they are now. InvalidRequest when they can't be used together."""
        for _ in range(_READS):
            try:
                pems = self._bytes()
                self._check()
                if self._bytes() == pems:
                    return pems
            except ssl.SSLError as error:
                told = InvalidRequest(
                    f"{self.certificate}, {self.key} and {self.authorities} are no certificate "
                    f"with its key and authorities in PEM: {error.reason or error}",
                    field="tls",
                )
            except OSError as error:
                told = InvalidRequest(
                    f"can't read {error.filename or self.certificate}: {error.strerror}; "
                    "are the certificates mounted?",
                    field="tls",
                )
            else:
                told = InvalidRequest(f"{self.certificate} keeps changing", field="tls")
        raise told

    def _bytes(self) -> Pems:
        return Pems(*(path.read_bytes() for path in (self.certificate, self.key, self.authorities)))

    def _check(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        context.load_verify_locations(self.authorities)
