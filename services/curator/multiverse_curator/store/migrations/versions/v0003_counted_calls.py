"""How many calls of a job are in which state is counted where the job is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STATES = ("started", "answered", "failed", "lost")


def upgrade() -> None:
    for state in STATES:
        name = f"calls_{state}"
        op.add_column("jobs", sa.Column(name, sa.Integer, nullable=False, server_default="0"))
    columns = [sa.column(f"calls_{state}", sa.Integer) for state in STATES]
    jobs = sa.table("jobs", sa.column("id"), *columns)
    calls = sa.table("calls", sa.column("job"), sa.column("state"))
    db = op.get_bind()
    query = sa.select(calls.c.job, calls.c.state, sa.func.count().label("count"))
    for row in db.execute(query.group_by(calls.c.job, calls.c.state)).all():
        counted = {f"calls_{row.state}": row.count}
        db.execute(jobs.update().where(jobs.c.id == row.job).values(counted))


def downgrade() -> None:
    with op.batch_alter_table("jobs") as jobs:
        for state in STATES:
            jobs.drop_column(f"calls_{state}")
