"""`python -m multiverse_worker`: one worker process, set up by its environment."""

from __future__ import annotations

import asyncio
import logging
import sys

from pydantic import ValidationError

from multiverse_shared.errors import MultiverseError
from multiverse_worker.server import serve
from multiverse_worker.settings import WorkerSettings


def main() -> int:
    try:
        settings = WorkerSettings()
        logging.basicConfig(
            level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        logging.getLogger("gguf").setLevel(logging.WARNING)
        return asyncio.run(serve(settings))
    except (ValidationError, MultiverseError) as error:
        print(f"multiverse-worker: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
