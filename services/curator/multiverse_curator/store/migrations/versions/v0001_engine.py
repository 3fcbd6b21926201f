"""Samples, outputs, calls and answers of one run on one machine."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "samples",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(200), nullable=False, unique=True),
        sa.Column("source", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("failed_stage", sa.String(16), nullable=False),
        sa.Column("tries", sa.JSON, nullable=False),
        sa.Column("complaints", sa.JSON, nullable=False),
        sa.Column("result", sa.JSON),
    )
    op.create_index("samples_by_state", "samples", ["state", "id"])
    op.create_table(
        "outputs",
        sa.Column("sample", sa.Integer, sa.ForeignKey("samples.id"), primary_key=True),
        sa.Column("stage", sa.String(16), primary_key=True),
        sa.Column("output", sa.JSON, nullable=False),
    )
    op.create_table(
        "calls",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("sample", sa.Integer, sa.ForeignKey("samples.id"), nullable=False),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("input_tokens", sa.Integer, nullable=False),
        sa.Column("output_tokens", sa.Integer, nullable=False),
        sa.Column("cost", sa.Float, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
    )
    op.create_index("calls_by_key", "calls", ["key", "state"])
    op.create_index("calls_by_state", "calls", ["state"])
    op.create_table(
        "answers",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("call", sa.Integer, sa.ForeignKey("calls.id"), nullable=False, unique=True),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "broken_rows",
        sa.Column("file", sa.String(500), primary_key=True),
        sa.Column("line", sa.Integer, primary_key=True),
        sa.Column("reason", sa.Text, nullable=False),
    )


def downgrade() -> None:
    for table in ("broken_rows", "answers", "calls", "outputs", "samples"):
        op.drop_table(table)
