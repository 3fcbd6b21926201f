"""`python -m multiverse_router`: one router process, set up by its environment."""

from __future__ import annotations

import logging
import sys

from pydantic import ValidationError

from multiverse_router.api.observation import access
from multiverse_router.app import create_app
from multiverse_router.server import RouterServer
from multiverse_router.settings import RouterSettings
from multiverse_router.visit import about
from multiverse_shared.errors import MultiverseError
from multiverse_shared.logs import log_to_stderr


def main() -> int:
    try:
        settings = RouterSettings()
        _log(settings)
        app = create_app(settings)
    except (ValidationError, MultiverseError, OSError) as error:
        print(f"multiverse-router: {error}", file=sys.stderr)
        return 2
    RouterServer(app, settings).run()
    return 0


def _log(settings: RouterSettings) -> None:
    """Lines of the process to stderr, JSON lines of the access log to stdout."""
    log_to_stderr(settings.log_level, settings.log_format, about)
    lines = logging.StreamHandler(sys.stdout)
    lines.setFormatter(logging.Formatter("%(message)s"))
    access.addHandler(lines)
    access.propagate = False
    access.setLevel(logging.INFO if settings.access_log else logging.CRITICAL)


if __name__ == "__main__":
    sys.exit(main())
