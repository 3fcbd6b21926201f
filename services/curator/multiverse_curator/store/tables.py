"""Tables as they are now. How they came to be so is for `migrations`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    TypeDecorator,
    UniqueConstraint,
    types,
)


class Text(TypeDecorator[str]):
    """Any text: PostgreSQL takes no NUL."""

    impl: type[types.String] = types.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return value.replace("\0", "\ufffd") if value else value


class Name(Text):
    """Text of limited length."""

    impl = types.String
    cache_ok = True


metadata = MetaData()
jobs = Table(
    "jobs",
    metadata,
    Column("id", Name(32), primary_key=True),
    Column("name", Name(200), nullable=False, default=""),
    Column("tenant", Name(64), nullable=False, default=""),  # whose key it was submitted with
    Column("submission", Name(200)),  # the client's own key for it
    Column("state", Name(16), nullable=False),
    Column("reason", Text, nullable=False, default=""),
    Column("options", JSON, nullable=False, default=dict),
    Column("priority", Integer, nullable=False, default=1),
    Column("in_flight", Integer, nullable=False, default=64),
    Column("created", Float, nullable=False),  # seconds since 1970, as all times here
    Column("ended", Float),
    # Counters: changed in the transactions that change what they count.
    Column("pending", Integer, nullable=False, default=0),
    Column("converted", Integer, nullable=False, default=0),
    Column("sequential", Integer, nullable=False, default=0),
    Column("dead", Integer, nullable=False, default=0),
    Column("broken", Integer, nullable=False, default=0),
    Column("input_tokens", Integer, nullable=False, default=0),
    Column("output_tokens", Integer, nullable=False, default=0),
    Column("calls_started", Integer, nullable=False, default=0),  # in flight
    Column("calls_answered", Integer, nullable=False, default=0),
    Column("calls_failed", Integer, nullable=False, default=0),
    Column("calls_lost", Integer, nullable=False, default=0),
    Column("spent", Float, nullable=False, default=0.0),
    Column("reserved", Float, nullable=False, default=0.0),  # most that calls in flight may cost
    UniqueConstraint("tenant", "submission", name="jobs_by_submission"),
    Index("jobs_by_tenant", "tenant", "created", "id"),
    Index("jobs_by_state", "state", "priority"),
)
samples = Table(
    "samples",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job", ForeignKey("jobs.id"), nullable=False),
    Column("key", Name(200), nullable=False),
    Column("title", Text, nullable=False, default=""),  # the beginning of the prompt
    Column("source", JSON, nullable=False),
    Column("state", Name(16), nullable=False, default="pending"),
    Column("stage", Name(16), nullable=False, default="summary"),  # the next one, while pending
    Column("reason", Text, nullable=False, default=""),
    Column("failed_stage", Name(16), nullable=False, default=""),
    Column("failed_question", Name(200)),  # None: it was not an answer that failed
    Column("tries", JSON, nullable=False, default=dict),  # by stage: how often sent back to it
    Column("complaints", JSON, nullable=False, default=dict),  # by question: what to mend
    Column("result", JSON),
    Column("owner", Name(64), nullable=False, default=""),  # the task that works on it
    Column("due", Float, nullable=False, default=0.0),  # when it may be handed out again
    UniqueConstraint("job", "key", name="samples_by_key"),
    Index("samples_by_state", "job", "state", "id"),
    Index("samples_by_stage", "job", "state", "stage", "id"),
    Index("samples_by_due", "job", "state", "due"),
    Index("samples_by_owner", "owner"),
)
outputs = Table(
    "outputs",
    metadata,
    Column("sample", ForeignKey("samples.id"), primary_key=True),
    Column("stage", Name(16), primary_key=True),
    Column("output", JSON, nullable=False),
)
calls = Table(
    "calls",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("job", ForeignKey("jobs.id"), nullable=False),
    Column("key", Name(64), nullable=False),
    Column("sample", ForeignKey("samples.id"), nullable=False),
    Column("stage", Name(16), nullable=False),
    Column("state", Name(16), nullable=False),
    Column("begun", Float, nullable=False, default=0.0),
    Column("input_tokens", Integer, nullable=False, default=0),
    Column("output_tokens", Integer, nullable=False, default=0),
    Column("cost", Float, nullable=False, default=0.0),
    Column("reserved", Float, nullable=False, default=0.0),
    Column("note", Text, nullable=False, default=""),
    Index("calls_by_key", "key", "state"),
    Index("calls_by_state", "job", "state"),
    Index("calls_by_sample", "sample", "state"),
)
answers = Table(
    "answers",
    metadata,
    Column("key", Name(64), primary_key=True),
    Column("call", ForeignKey("calls.id"), nullable=False),
    Column("text", Text, nullable=False),
    UniqueConstraint("call"),
)
broken_rows = Table(
    "broken_rows",
    metadata,
    Column("job", ForeignKey("jobs.id"), primary_key=True),
    Column("file", Name(500), primary_key=True),
    Column("line", Integer, primary_key=True),
    Column("reason", Text, nullable=False),
)
datasets = Table(
    "datasets",
    metadata,
    Column("id", Name(32), primary_key=True),
    Column("job", ForeignKey("jobs.id"), nullable=False),
    Column("tenant", Name(64), nullable=False, default=""),
    Column("format", Name(16), nullable=False),
    Column("created", Float, nullable=False),
    Column("card", JSON, nullable=False),
    Index("datasets_by_tenant", "tenant", "created", "id"),
)
