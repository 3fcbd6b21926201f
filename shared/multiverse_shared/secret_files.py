"""Settings that come from files: secrets that stand in no environment.

`MULTIVERSE_SECRETS` names a folder; a file in it that is named like a setting's variable, in small
letters, holds its value. A variable goes before a file. Knows no settings class.
"""

from __future__ import annotations

import os

VARIABLE = "MULTIVERSE_SECRETS"


def secrets_folder() -> str | None:
    """For `secrets_dir` of a settings class; None: there are no files."""
    return os.environ.get(VARIABLE) or None
