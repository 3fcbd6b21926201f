"""`python -m multiverse_worker`: one worker process, set up by its environment."""

from __future__ import annotations

import asyncio
import logging
import sys

from multiverse_shared.errors import MultiverseError
from pydantic import ValidationError

from multiverse_worker.server import serve
from multiverse_worker.settings import WorkerSettings


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        return asyncio.run(serve(WorkerSettings()))
    except (ValidationError, MultiverseError) as error:
        print(f"multiverse-worker: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
