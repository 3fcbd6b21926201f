"""Entry point of alembic: on the connection, and in the transaction, of `Database.migrate`."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
