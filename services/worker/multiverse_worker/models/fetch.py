"""Brings a model to where a worker can read it: what the chart's init container runs.

`python -m multiverse_worker.models.fetch hub OWNER/NAME --revision R --to FOLDER`
`python -m multiverse_worker.models.fetch s3 s3://BUCKET/PREFIX --to FOLDER`

What is there already, whole, is not fetched again. The hub's address and token, and the store's
endpoint, region and credentials come from the variables that their libraries read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from multiverse_shared.errors import InvalidRequest, MultiverseError

MARK = ".fetched"  # holds where the model came from; written last


def from_hub(repo: str, revision: str, folder: Path) -> int:
    """Files that were fetched. MultiverseError when the hub has no such model."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    if _is_there(folder, source := f"{repo}@{revision}"):
        return 0
    try:
        snapshot_download(repo, revision=revision, local_dir=folder)
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise MultiverseError(
            f"can't fetch {source} from the hub: {error}; is HF_TOKEN set, and may it read it?"
        ) from None
    return _done(folder, source)


def from_store(uri: str, folder: Path) -> int:
    """Files that were fetched. MultiverseError when the store has none under `uri`."""
    parts = urlsplit(uri)
    prefix = parts.path.strip("/")
    if parts.scheme != "s3" or not parts.netloc:
        raise InvalidRequest(f"{uri!r} is no s3://BUCKET/PREFIX", field="uri")
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ModuleNotFoundError as error:
        raise InvalidRequest(
            f"s3 needs {error.name}: pip install 'multiverse-worker[fetch]'", field="uri"
        ) from None
    if _is_there(folder, uri):
        return 0
    try:
        store = boto3.client("s3")
        keys = [
            found["Key"]
            for page in store.get_paginator("list_objects_v2").paginate(
                Bucket=parts.netloc, Prefix=f"{prefix}/" if prefix else ""
            )
            for found in page.get("Contents", [])
            if not found["Key"].endswith("/")
        ]
        for key in keys:
            target = folder / _inside(key.removeprefix(f"{prefix}/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            store.download_file(parts.netloc, key, str(target))
    except (BotoCoreError, ClientError) as error:
        raise MultiverseError(f"can't fetch {uri}: {error}") from None
    if not keys:
        raise MultiverseError(f"there is nothing under {uri}; is the prefix right?")
    return _done(folder, uri)


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise MultiverseError(f"the store has a file {name!r}, which would lie outside")
    return path


def _is_there(folder: Path, source: str) -> bool:
    mark = folder / MARK
    return mark.exists() and mark.read_text("utf-8") == source


def _done(folder: Path, source: str) -> int:
    (folder / MARK).write_text(source, "utf-8")
    return sum(path.is_file() for path in folder.rglob("*")) - 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="multiverse_worker.models.fetch", description=__doc__)
    kinds = parser.add_subparsers(dest="kind", required=True)
    hub = kinds.add_parser("hub", help="from a hub")
    hub.add_argument("repo")
    hub.add_argument("--revision", default="main")
    store = kinds.add_parser("s3", help="from an S3-compatible store")
    store.add_argument("uri")
    for one in (hub, store):
        one.add_argument("--to", type=Path, required=True, help="folder of the model")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    try:
        if options.kind == "hub":
            count = from_hub(options.repo, options.revision, options.to)
        else:
            count = from_store(options.uri, options.to)
    except MultiverseError as error:
        print(f"multiverse-worker: {error}", file=sys.stderr)
        return 2
    print(f"{options.to}: {count} files fetched")
    return 0


if __name__ == "__main__":
    sys.exit(main())
