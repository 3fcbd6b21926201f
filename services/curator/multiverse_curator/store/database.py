"""A connection to the database, brought to the present version when it is opened.

Knows SQLite and PostgreSQL apart. Must not know what the tables mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Table, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from multiverse_shared.errors import InvalidRequest

FIRST = "0001"  # the version of databases that bear no version yet
HEAD = "head"
BUSY_MS = 30_000  # SQLite: how long a writer waits for another one
CONNECTIONS = 20  # PostgreSQL: of one process
_LOCK = 0x6D76_6375  # PostgreSQL: of who changes the schema
_READS = "multiverse_reads"


class Database:
    """`url` as SQLAlchemy reads it: `sqlite:///curate.db`, `postgresql+psycopg://..`.

    It is brought to version `to`, up or down.
    InvalidRequest for a URL that is none, and for a database of a newer version.
    """

    def __init__(self, url: str, to: str = HEAD) -> None:
        try:
            self._engine = create_engine(url, **_options(url))
        except (ArgumentError, NoSuchModuleError) as error:
            raise InvalidRequest(
                f"database: {error}; give sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME",
                field="database",
            ) from None
        if self.is_sqlite:
            event.listen(self._engine, "connect", _tune)
            event.listen(self._engine, "begin", _begin)
        self._reader = self._engine.execution_options(**{_READS: True})
        try:
            self.migrate(to)
        except BaseException:
            self.close()
            raise

    @property
    def is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        with self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction. In SQLite it waits for other writers here, not in its middle."""
        with self._engine.begin() as connection:
            yield connection

    def insert_new(self, connection: Connection, table: Table, row: dict[str, Any]) -> bool:
        """Whether the row is new; one that breaks a unique rule is left out."""
        dialect: Any = sqlite if self.is_sqlite else postgresql
        statement = dialect.insert(table).values(row).on_conflict_do_nothing()
        return bool(connection.execute(statement).rowcount)

    @property
    def version(self) -> str | None:
        with self.read() as connection:
            return _version(connection)

    def migrate(self, to: str = HEAD) -> None:
        """Bring tables and rows to a version, up or down. One process at a time does it."""
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.set_main_option("path_separator", "os")
        scripts = ScriptDirectory.from_config(config)
        known = [script.revision for script in scripts.walk_revisions()]
        wanted = known[0] if to == HEAD else to
        if wanted not in known:
            raise InvalidRequest(f"no version {to}: known are {', '.join(known)}", field="to")
        if self.version == wanted:
            return
        with self.write() as connection:
            if not self.is_sqlite:
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            config.attributes["connection"] = connection
            version = _version(connection)
            if version is None and inspect(connection).has_table("samples"):
                command.stamp(config, FIRST)
                version = FIRST
            if version is not None and version not in known:
                raise InvalidRequest(
                    f"the database has version {version}, this curator knows {known[0]} and "
                    "earlier; install a newer one",
                    field="database",
                )
            if version is None or known.index(version) > known.index(wanted):
                command.upgrade(config, wanted)
            elif version != wanted:
                command.downgrade(config, wanted)


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _options(url: str) -> dict[str, Any]:
    if str(url).startswith("sqlite"):
        return {}
    return {"pool_size": CONNECTIONS, "max_overflow": 0, "pool_pre_ping": True, "pool_timeout": 60}


def _tune(connection: Any, _: object) -> None:
    """Readers beside the writer; a commit survives the end of the process."""
    connection.isolation_level = None  # transactions begin in `_begin`
    for pragma in (f"busy_timeout={BUSY_MS}", "journal_mode=WAL", "synchronous=NORMAL"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get(_READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
