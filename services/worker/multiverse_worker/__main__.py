"""`python -m multiverse_worker`: one worker process, set up by its environment."""

from __future__ import annotations

import asyncio
import logging
import sys

from pydantic import ValidationError

from multiverse_shared.errors import MultiverseError
from multiverse_shared.logs import log_to_stderr
from multiverse_worker.server import serve
from multiverse_worker.settings import WorkerSettings


def main() -> int:
    try:
        settings = WorkerSettings()
        log_to_stderr(settings.log_level, settings.log_format)
        logging.getLogger("gguf").setLevel(logging.WARNING)
        return asyncio.run(serve(settings))
    except (ValidationError, MultiverseError) as error:
        print(f"multiverse-worker: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
