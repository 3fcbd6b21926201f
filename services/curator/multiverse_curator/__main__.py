"""`python -m multiverse_curator api | worker | migrate`: a process set up by its environment."""

from __future__ import annotations

import argparse
import logging
import sys

from pydantic import ValidationError

from multiverse_curator.service.settings import CuratorSettings
from multiverse_curator.store.database import HEAD, Database
from multiverse_shared.errors import MultiverseError

# A line for each message and each look at the version would be all that one sees.
QUIET = ("alembic.runtime.migration", "celery.app.trace", "celery.worker.strategy", "httpx")


def main() -> int:
    parser = argparse.ArgumentParser(prog="multiverse-curator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("api", help="serve the API and its page")
    commands.add_parser("worker", help="take samples through their stages")
    migrate = commands.add_parser("migrate", help="bring the database to a version, and end")
    migrate.add_argument("--to", default=HEAD, help="version; the newest if left out")
    options = parser.parse_args()
    try:
        settings = CuratorSettings()
        logging.basicConfig(
            level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        )
        for name in QUIET:
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.root.level))
        if options.command == "migrate":
            database = Database(settings.database.get_secret_value(), to=options.to)
            print(f"the database has version {database.version}")
            database.close()
        elif options.command == "api":
            from multiverse_curator.service.api.server import run_api

            run_api(settings)
        else:
            from multiverse_curator.service.worker.tasks import run_worker

            run_worker(settings)
    except (ValidationError, MultiverseError, OSError) as error:
        print(f"multiverse-curator: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
