"""`python -m deploy.generator [--check]`: write defaults, schema and documentation, or compare.

With --check nothing is written; the status is 1 when something differs, and it is named.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deploy.generator.pages import pages, with_tables
from deploy.generator.schema import schema_text
from deploy.generator.values_file import values_text

ROOT = Path(__file__).parents[2]
CHART = "deploy/helm/multiverse"


def made(root: Path) -> dict[str, str]:
    """What each generated file should hold, by its path under `root`."""
    texts = {
        f"{CHART}/values.yaml": values_text(),
        f"{CHART}/values.schema.json": schema_text(),
    }
    for page in sorted(pages()):
        texts[page] = with_tables(page, (root / page).read_text("utf-8"))
    return texts


def differing(root: Path) -> list[str]:
    """Files that are not what the settings classes make."""
    return [path for path, text in made(root).items() if _read(root / path) != text]


def _read(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="deploy.generator", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--root", type=Path, default=ROOT, help="of the repository")
    options = parser.parse_args()
    wrong = differing(options.root)
    if options.check:
        for path in wrong:
            print(f"{path} is not what the settings make: run `make settings`", file=sys.stderr)
        return int(bool(wrong))
    for path, text in made(options.root).items():
        (options.root / path).write_text(text, "utf-8")
    print(f"{len(wrong)} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
