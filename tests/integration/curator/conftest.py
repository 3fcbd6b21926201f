"""One PostgreSQL for all tests of the curator that want it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.curator.databases import KINDS, Postgres, postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/curator.db"
    server: Postgres = request.getfixturevalue("postgres_server")
    return server.database()


@pytest.fixture(scope="module", params=KINDS)
def make_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], str]:
    """Makes URLs of empty databases of each kind."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path_factory.mktemp('database')}/curator.db"
    server: Postgres = request.getfixturevalue("postgres_server")
    return server.database
