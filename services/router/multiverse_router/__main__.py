"""`python -m multiverse_router`: one router process, set up by its environment."""

from __future__ import annotations

import logging
import sys

import uvicorn
from pydantic import ValidationError

from multiverse_router.app import create_app
from multiverse_router.settings import RouterSettings

SHUTDOWN_GRACE_S = 20


def main() -> int:
    try:
        settings = RouterSettings()
    except ValidationError as error:
        print(f"multiverse-router: {error}", file=sys.stderr)
        return 2
    logging.basicConfig(
        level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_GRACE_S,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
