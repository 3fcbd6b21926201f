"""Jobs: samples, calls and broken rows belong to one; datasets are written of them.

What was there becomes the job `local`, of one run on one machine. Down again all jobs become one
run; a sample whose key another job has, too, is kept under the key `JOB/KEY`.
"""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STAGES = ("summary", "groups", "structure", "refill", "rewrite", "check")
PAGE = 500
# SQLite has no name for a rule that was made without one; PostgreSQL makes one.
UNNAMED = {"uq": "uq_%(table_name)s_%(column_0_name)s"}


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("submission", sa.String(200)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("options", sa.JSON, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("in_flight", sa.Integer, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("ended", sa.Float),
        sa.Column("pending", sa.Integer, nullable=False),
        sa.Column("converted", sa.Integer, nullable=False),
        sa.Column("sequential", sa.Integer, nullable=False),
        sa.Column("dead", sa.Integer, nullable=False),
        sa.Column("broken", sa.Integer, nullable=False),
        sa.Column("input_tokens", sa.Integer, nullable=False),
        sa.Column("output_tokens", sa.Integer, nullable=False),
        sa.Column("spent", sa.Float, nullable=False),
        sa.Column("reserved", sa.Float, nullable=False),
        sa.UniqueConstraint("tenant", "submission", name="jobs_by_submission"),
    )
    op.create_index("jobs_by_tenant", "jobs", ["tenant", "created", "id"])
    op.create_index("jobs_by_state", "jobs", ["state", "priority"])
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("job", sa.String(32), sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("tenant", sa.String(64), nullable=False),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("card", sa.JSON, nullable=False),
    )
    op.create_index("datasets_by_tenant", "datasets", ["tenant", "created", "id"])
    local = _local_job()
    op.drop_index("samples_by_state", "samples")
    with op.batch_alter_table("samples", naming_convention=UNNAMED) as samples:
        samples.drop_constraint(_unique_of_keys(), type_="unique")
        samples.add_column(_job(local, "samples"))
        samples.add_column(sa.Column("title", sa.Text, nullable=False, server_default=""))
        samples.add_column(sa.Column("stage", sa.String(16), nullable=False, server_default=""))
        samples.add_column(sa.Column("failed_question", sa.String(200)))
        samples.add_column(sa.Column("owner", sa.String(64), nullable=False, server_default=""))
        samples.add_column(sa.Column("due", sa.Float, nullable=False, server_default="0"))
        samples.create_unique_constraint("samples_by_key", ["job", "key"])
    for name, columns in SAMPLE_INDEXES.items():
        op.create_index(name, "samples", columns)
    op.drop_index("calls_by_state", "calls")
    with op.batch_alter_table("calls") as calls:
        calls.add_column(_job(local, "calls"))
        calls.add_column(sa.Column("begun", sa.Float, nullable=False, server_default="0"))
        calls.add_column(sa.Column("reserved", sa.Float, nullable=False, server_default="0"))
    op.create_index("calls_by_state", "calls", ["job", "state"])
    op.create_index("calls_by_sample", "calls", ["sample", "state"])
    _replace_broken_rows(local)
    _fill_samples()


SAMPLE_INDEXES = {
    "samples_by_state": ["job", "state", "id"],
    "samples_by_stage": ["job", "state", "stage", "id"],
    "samples_by_due": ["job", "state", "due"],
    "samples_by_owner": ["owner"],
}


def _job(local: str, table: str) -> sa.Column[str]:
    """Rows that are there belong to the job `local`."""
    key = sa.ForeignKey("jobs.id", name=f"{table}_of_job")
    return sa.Column("job", sa.String(32), key, nullable=False, server_default=local)


def _unique_of_keys() -> str:
    return "uq_samples_key" if op.get_bind().dialect.name == "sqlite" else "samples_key_key"


def _local_job() -> str:
    """The job of what is there, with its counters; there if samples are."""
    db = op.get_bind()
    query = sa.text("SELECT state, count(*) FROM samples GROUP BY state")
    states: dict[str, int] = {state: count for state, count in db.execute(query)}
    if not states:
        return "local"
    spent = db.execute(
        sa.text("SELECT sum(input_tokens), sum(output_tokens), sum(cost) FROM calls")
    ).one()
    row = {
        "id": "local",
        "name": "local",
        "tenant": "",
        "state": "running" if states.get("pending") else "done",
        "reason": "",
        "options": {},
        "priority": 1,
        "in_flight": 64,
        "created": time.time(),
        **{state: states.get(state, 0) for state in ("pending", "converted", "sequential", "dead")},
        "broken": db.execute(sa.text("SELECT count(*) FROM broken_rows")).scalar_one(),
        "input_tokens": spent[0] or 0,
        "output_tokens": spent[1] or 0,
        "spent": spent[2] or 0.0,
        "reserved": 0.0,
    }
    jobs = sa.table("jobs", *(sa.column(name) for name in row if name != "options"))
    jobs.append_column(sa.column("options", sa.JSON))
    db.execute(jobs.insert().values(row))
    return "local"


def _replace_broken_rows(local: str) -> None:
    """Its primary key has the job, too: made anew, since SQLite can't change one."""
    db = op.get_bind()
    rows = db.execute(sa.text("SELECT file, line, reason FROM broken_rows")).mappings().all()
    op.drop_table("broken_rows")
    table = op.create_table(
        "broken_rows",
        sa.Column("job", sa.String(32), sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("file", sa.String(500), primary_key=True),
        sa.Column("line", sa.Integer, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
    )
    if rows:
        op.bulk_insert(table, [{"job": local, **row} for row in rows])


def _fill_samples() -> None:
    """Titles of all samples, and the stage that each pending one has before it."""
    db = op.get_bind()
    samples = sa.table(
        "samples",
        *(sa.column(name) for name in ("id", "title", "stage")),
        sa.column("source", sa.JSON),
    )
    outputs = sa.table("outputs", sa.column("sample"), sa.column("stage"))
    last = 0
    while True:
        query = sa.select(samples.c.id, samples.c.source).where(samples.c.id > last)
        page = db.execute(query.order_by(samples.c.id).limit(PAGE)).all()
        if not page:
            return
        last = page[-1].id
        made: dict[int, set[str]] = {row.id: set() for row in page}
        between = (outputs.c.sample >= page[0].id) & (outputs.c.sample <= last)
        for sample, stage in db.execute(
            sa.select(outputs.c.sample, outputs.c.stage).where(between)
        ):
            made[sample].add(stage)
        changes = [
            {
                "at": row.id,
                "title": row.source["prompt"][:120].replace("\0", "\ufffd"),
                "stage": next(name for name in STAGES if name not in made[row.id]),
            }
            for row in page
        ]
        change = samples.update().where(samples.c.id == sa.bindparam("at"))
        db.execute(change.values(title=sa.bindparam("title"), stage=sa.bindparam("stage")), changes)


def downgrade() -> None:
    db = op.get_bind()
    db.execute(
        sa.text(
            "UPDATE samples SET key = substr(job || '/' || key, 1, 200) WHERE EXISTS "
            "(SELECT 1 FROM samples AS other WHERE other.key = samples.key "
            "AND other.id < samples.id)"
        )
    )
    for name in SAMPLE_INDEXES:
        op.drop_index(name, "samples")
    with op.batch_alter_table("samples") as samples:
        samples.drop_constraint("samples_by_key", type_="unique")
        samples.drop_constraint("samples_of_job", type_="foreignkey")
        for column in ("job", "title", "stage", "failed_question", "owner", "due"):
            samples.drop_column(column)
        samples.create_unique_constraint(_unique_of_keys(), ["key"])
    op.create_index("samples_by_state", "samples", ["state", "id"])
    for name in ("calls_by_state", "calls_by_sample"):
        op.drop_index(name, "calls")
    with op.batch_alter_table("calls") as calls:
        calls.drop_constraint("calls_of_job", type_="foreignkey")
        for column in ("job", "begun", "reserved"):
            calls.drop_column(column)
    op.create_index("calls_by_state", "calls", ["state"])
    query = "SELECT file, line, min(reason) AS reason FROM broken_rows GROUP BY file, line"
    rows = db.execute(sa.text(query)).mappings().all()
    op.drop_table("broken_rows")
    table = op.create_table(
        "broken_rows",
        sa.Column("file", sa.String(500), primary_key=True),
        sa.Column("line", sa.Integer, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
    )
    if rows:
        op.bulk_insert(table, [dict(row) for row in rows])
    op.drop_table("datasets")
    op.drop_table("jobs")
