"""TLS files are taken together, and refused with the file and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from multiverse_router.settings import RouterSettings
from multiverse_shared.errors import InvalidRequest
from multiverse_shared.tls import TlsFiles
from multiverse_worker.settings import WorkerSettings
from tests.certificates import Authority, tls_settings


def files_of(folder: Path) -> TlsFiles:
    return TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")


def test_all_three_files_are_read(tmp_path: Path) -> None:
    folder = Authority().issue(tmp_path / "worker", "worker")
    pems = files_of(folder).read()
    assert pems.certificate == (folder / "tls.crt").read_bytes()
    assert pems.key.startswith(b"-----BEGIN")
    assert pems.authorities == (folder / "ca.crt").read_bytes()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    folder = Authority().issue(tmp_path / "worker", "worker")
    (folder / "ca.crt").unlink()
    with pytest.raises(InvalidRequest, match=r"ca\.crt.*mounted"):
        files_of(folder).read()


def test_the_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    folder = authority.issue(tmp_path / "worker", "worker")
    other = authority.issue(tmp_path / "other", "worker")
    (folder / "tls.key").write_bytes((other / "tls.key").read_bytes())
    with pytest.raises(InvalidRequest, match=r"tls\.key"):
        files_of(folder).read()


def test_what_is_no_pem_is_refused(tmp_path: Path) -> None:
    folder = Authority().issue(tmp_path / "worker", "worker")
    (folder / "ca.crt").write_text("authorities", "utf-8")
    with pytest.raises(InvalidRequest, match=r"ca\.crt"):
        files_of(folder).read()


@pytest.mark.parametrize("left_out", ["tls_cert_file", "tls_key_file", "tls_ca_file"])
def test_settings_name_the_file_that_is_left_out(tmp_path: Path, left_out: str) -> None:
    folder = Authority().issue(tmp_path / "files", "any")
    worker, router = tls_settings(folder), tls_settings(folder, "worker_")
    del worker[left_out], router[f"worker_{left_out}"]
    with pytest.raises(ValidationError, match=f"{left_out} must be set too"):
        WorkerSettings.model_validate({"model": tmp_path, **worker})
    with pytest.raises(ValidationError, match=f"worker_{left_out} must be set too"):
        RouterSettings.model_validate(router)
