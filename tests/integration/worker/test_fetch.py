"""Models from an S3-compatible store, as the chart's init container brings them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from multiverse_shared.errors import InvalidRequest, MultiverseError
from multiverse_worker.models.fetch import from_store

FILES = {"config.json": b"{}", "nested/tokenizer.json": b"[1]" * 1000}


@contextmanager
def store(files: dict[str, bytes], asked: list[str]) -> Iterator[str]:
    """The URL of a store with one bucket."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._object(with_body=False)

        def do_GET(self) -> None:
            if "list-type=2" in self.path:
                keys = "".join(f"<Contents><Key>models/{name}</Key></Contents>" for name in files)
                text = (
                    f"<ListBucketResult><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>"
                )
                self._answer(200, text.encode())
            else:
                asked.append(self.path)
                self._object(with_body=True)

        def _object(self, *, with_body: bool) -> None:
            body = files.get(self.path.partition("?")[0].removeprefix("/bucket/models/"))
            self._answer(404 if body is None else 200, body or b"", with_body=with_body)

        def _answer(self, status: int, body: bytes, *, with_body: bool = True) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("etag", f'"{sha256(body).hexdigest()}"')
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "eu-1" if "REGION" in name else "x" * 20)
    return monkeypatch


def test_all_files_under_the_prefix_are_fetched_once(
    credentials: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []
    with store(FILES, asked) as url:
        credentials.setenv("AWS_ENDPOINT_URL_S3", url)
        assert from_store("s3://bucket/models", tmp_path) == len(FILES)
        assert from_store("s3://bucket/models", tmp_path) == 0
    assert len(asked) == len(FILES)
    for name, body in FILES.items():
        assert (tmp_path / name).read_bytes() == body


@pytest.mark.parametrize(
    ("files", "said"),
    [({}, "there is nothing under"), ({"../outside": b""}, "would lie outside")],
)
def test_what_can_not_be_a_model_is_refused(
    credentials: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, bytes], said: str
) -> None:
    with store(files, []) as url:
        credentials.setenv("AWS_ENDPOINT_URL_S3", url)
        with pytest.raises(MultiverseError, match=said):
            from_store("s3://bucket/models", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("uri", ["https://bucket/models", "s3:///models", json.dumps({})])
def test_what_is_no_address_of_a_store_is_refused(tmp_path: Path, uri: str) -> None:
    with pytest.raises(InvalidRequest, match=r"no s3://BUCKET/PREFIX"):
        from_store(uri, tmp_path)
