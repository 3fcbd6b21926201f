"""Converted weights in the user's cache folder: one file per weights, type and converter."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from platformdirs import user_cache_path

from multiverse_worker.models.directory import ModelDirectory
from multiverse_worker.models.export import CONVERTER_VERSION, export_gguf

_ABANDONED_S = 3600.0  # a conversion writes all the time; one that has not for so long is dead

log = logging.getLogger(__name__)


def converted(model: ModelDirectory, digest: str, type_name: str) -> Path:
    """The GGUF of these weights; made when it is not there.

    Files that an older converter made of the same weights are removed.
    """
    folder = user_cache_path("multiverse") / "gguf"
    suffix = f"-v{CONVERTER_VERSION}.gguf"
    target = folder / f"{digest}-{type_name}{suffix}"
    if not target.is_file():
        started = time.monotonic()
        export_gguf(model, target, type_name)
        log.info(
            "converted %s to %s in %.1f s: %d MB in %s",
            model.path,
            type_name,
            time.monotonic() - started,
            target.stat().st_size >> 20,
            target,
        )
    for path in folder.glob(f"{digest}-*.gguf"):
        if not path.name.endswith(suffix):
            path.unlink(missing_ok=True)
    for path in folder.glob(f".{digest}-*.part"):
        if _abandoned(path):
            path.unlink(missing_ok=True)
    return target


def _abandoned(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _ABANDONED_S
    except FileNotFoundError:  # it was finished meanwhile
        return False
