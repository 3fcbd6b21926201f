"""`python -m multiverse_trainer [--config FILE]`: the job, also under torchrun.

Settings come from the file and from MULTIVERSE_TRAIN_*. One JSON line last. SIGTERM saves and
ends with status 0; a job that is started again goes on by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from multiverse_shared.errors import MultiverseError


def main() -> None:
    parser = argparse.ArgumentParser(prog="multiverse_trainer", description=__doc__)
    parser.add_argument("--config", type=Path, help="settings as YAML or JSON")
    options = parser.parse_args()
    from multiverse_trainer.recipe.checkpoints import latest
    from multiverse_trainer.recipe.run import run
    from multiverse_trainer.recipe.settings import load_settings

    try:
        settings = load_settings(options.config)
        summary = run(settings, resume=latest(settings.output) is not None)
    except MultiverseError as error:
        print(f"multiverse_trainer: {error}", file=sys.stderr)
        sys.exit(1)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
