"""These tests need Mooncake's client: `make test-mooncake` has it."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("mooncake") else ["test_*.py"]
