"""Samples, what each stage made of them, and the ledger of calls to the teacher.

Knows SQL. Must not know stages' contents: they are JSON here. Every method is one transaction,
so a process may be killed anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    delete,
    event,
    func,
    select,
    update,
)

from multiverse_curator.faults import STAGES, Stage
from multiverse_curator.source import Source


class State(StrEnum):
    """Of a sample. All but `pending` are final."""

    PENDING = "pending"
    CONVERTED = "converted"
    SEQUENTIAL = "sequential"  # nothing in it can be taken side by side
    DEAD = "dead"


class CallState(StrEnum):
    STARTED = "started"
    ANSWERED = "answered"
    FAILED = "failed"
    LOST = "lost"  # in flight when its process ended: perhaps billed


metadata = MetaData()
samples = Table(
    "samples",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(200), nullable=False, unique=True),
    Column("source", JSON, nullable=False),
    Column("state", String(16), nullable=False, default=State.PENDING.value),
    Column("reason", Text, nullable=False, default=""),
    Column("failed_stage", String(16), nullable=False, default=""),
    Column("tries", JSON, nullable=False, default=dict),  # by stage: how often sent back to it
    Column("complaints", JSON, nullable=False, default=dict),  # by question: what to mend
    Column("result", JSON),
    Index("samples_by_state", "state", "id"),
)
outputs = Table(
    "outputs",
    metadata,
    Column("sample", ForeignKey("samples.id"), primary_key=True),
    Column("stage", String(16), primary_key=True),
    Column("output", JSON, nullable=False),
)
calls = Table(
    "calls",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(64), nullable=False),
    Column("sample", ForeignKey("samples.id"), nullable=False),
    Column("stage", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("input_tokens", Integer, nullable=False, default=0),
    Column("output_tokens", Integer, nullable=False, default=0),
    Column("cost", Float, nullable=False, default=0.0),
    Column("note", Text, nullable=False, default=""),
    Index("calls_by_key", "key", "state"),
    Index("calls_by_state", "state"),
)
answers = Table(
    "answers",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("call", ForeignKey("calls.id"), nullable=False),
    Column("text", Text, nullable=False),
    UniqueConstraint("call"),
)
broken_rows = Table(
    "broken_rows",
    metadata,
    Column("file", String(500), primary_key=True),
    Column("line", Integer, primary_key=True),
    Column("reason", Text, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a question has to mend, and how often it was complained about."""

    text: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    id: int
    source: Source
    state: State
    tries: dict[str, int]
    complaints: dict[str, Complaint]
    reason: str
    failed_stage: str
    result: dict[str, Any] | None
    outputs: dict[Stage, Any]


class Store:
    """`url` as SQLAlchemy reads it: `sqlite:///curate.db`."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url)
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _tune)
        metadata.create_all(self._engine)

    def close(self) -> None:
        self._engine.dispose()

    def add(self, sources: list[Source]) -> int:
        """How many are new: a key that is there already stays as it is."""
        rows = {source.key: source.model_dump() for source in sources}
        with self._engine.begin() as db:
            known = select(samples.c.key).where(samples.c.key.in_(rows))
            for key in db.scalars(known):
                rows.pop(key)
            if rows:
                new = [{"key": key, "source": row} for key, row in rows.items()]
                db.execute(samples.insert(), new)
        return len(rows)

    def add_broken_row(self, file: str, line: int, reason: str) -> None:
        with self._engine.begin() as db:
            at = (broken_rows.c.file == file) & (broken_rows.c.line == line)
            db.execute(delete(broken_rows).where(at))
            db.execute(broken_rows.insert().values(file=file, line=line, reason=reason))

    def ids(self, state: State, page: int = 500) -> Iterator[int]:
        """Ids of samples in that state, read page by page; each once."""
        last = 0
        while True:
            wanted = (samples.c.state == state.value) & (samples.c.id > last)
            query = select(samples.c.id).where(wanted).order_by(samples.c.id).limit(page)
            with self._engine.begin() as db:
                found = list(db.scalars(query))
            if not found:
                return
            yield from found
            last = found[-1]

    def sample(self, sample_id: int) -> Sample:
        with self._engine.begin() as db:
            row = db.execute(select(samples).where(samples.c.id == sample_id)).one()
            query = select(outputs.c.stage, outputs.c.output).where(outputs.c.sample == sample_id)
            made = {Stage(stage): output for stage, output in db.execute(query)}
        return Sample(
            row.id,
            Source.model_validate(row.source),
            State(row.state),
            row.tries,
            {name: Complaint(*heard) for name, heard in row.complaints.items()},
            row.reason,
            row.failed_stage,
            row.result,
            made,
        )

    def save(self, sample_id: int, stage: Stage, output: Any) -> None:
        """The stage is done; a second time changes nothing."""
        with self._engine.begin() as db:
            at = (outputs.c.sample == sample_id) & (outputs.c.stage == stage.value)
            if db.scalar(select(outputs.c.stage).where(at)) is None:
                row = {"sample": sample_id, "stage": stage.value, "output": output}
                db.execute(outputs.insert(), row)

    def send_back(self, sample_id: int, stage: Stage, question: str, complaint: str) -> None:
        """Forget the outputs from `stage` on, and complaints about later stages.

        The next try of that question of the stage hears the complaint.
        """
        later = [name.value for name in STAGES[STAGES.index(stage) :]]
        at = samples.c.id == sample_id
        with self._engine.begin() as db:
            row = db.execute(select(samples.c.tries, samples.c.complaints).where(at)).one()
            tries = {**row.tries, stage.value: row.tries.get(stage.value, 0) + 1}
            complaints = {
                name: text
                for name, text in row.complaints.items()
                if name.split("/")[0] not in later[1:]
            }
            name = f"{stage.value}/{question}"
            number = row.complaints.get(name, ("", 0))[1] + 1
            complaints[name] = (complaint, number)
            made = (outputs.c.sample == sample_id) & outputs.c.stage.in_(later)
            db.execute(delete(outputs).where(made))
            db.execute(update(samples).where(at).values(tries=tries, complaints=complaints))

    def finish(
        self,
        sample_id: int,
        state: State,
        *,
        reason: str = "",
        stage: Stage | None = None,
        result: dict[str, Any] | None = None,
    ) -> None:
        pending = (samples.c.id == sample_id) & (samples.c.state == State.PENDING.value)
        values = {"state": state.value, "reason": reason, "result": result}
        with self._engine.begin() as db:
            db.execute(update(samples).where(pending).values(**values, failed_stage=stage or ""))

    def stored_answer(self, key: str) -> str | None:
        with self._engine.begin() as db:
            return db.scalar(select(answers.c.text).where(answers.c.key == key))

    def start_call(self, key: str, sample_id: int, stage: Stage) -> int:
        row = {"key": key, "sample": sample_id, "stage": stage.value, "state": CallState.STARTED}
        with self._engine.begin() as db:
            inserted = db.execute(calls.insert().values(row)).inserted_primary_key
        assert inserted
        return int(inserted[0])

    def end_call(
        self,
        call: int,
        key: str,
        state: CallState,
        *,
        spent: tuple[int, int] = (0, 0),
        cost: float = 0.0,
        note: str = "",
        text: str | None = None,
    ) -> None:
        """Book what became of the call; `text` is its answer, and is stored with it."""
        with self._engine.begin() as db:
            booked = {"state": state.value, "cost": cost, "note": note}
            tokens = {"input_tokens": spent[0], "output_tokens": spent[1]}
            db.execute(update(calls).where(calls.c.id == call).values(**booked, **tokens))
            if text is not None:
                db.execute(answers.insert().values(key=key, call=call, text=text))

    def book_lost(self) -> int:
        """Calls that an earlier process left in flight. Only one process may use the store."""
        left = calls.c.state == CallState.STARTED.value
        with self._engine.begin() as db:
            return db.execute(update(calls).where(left).values(state=CallState.LOST.value)).rowcount

    def spent(self) -> float:
        with self._engine.begin() as db:
            return float(db.scalar(select(func.sum(calls.c.cost))) or 0.0)

    def counts(self) -> dict[str, Any]:
        """What a run reports: samples by state, reasons, calls by state, tokens, money."""
        with self._engine.begin() as db:
            return {
                "samples": _grouped(db, samples.c.state),
                "broken_rows": db.scalar(select(func.count()).select_from(broken_rows)),
                "dead_at": _grouped(db, samples.c.failed_stage, samples.c.state == State.DEAD),
                "calls": _grouped(db, calls.c.state),
                "input_tokens": db.scalar(select(func.sum(calls.c.input_tokens))) or 0,
                "output_tokens": db.scalar(select(func.sum(calls.c.output_tokens))) or 0,
                "cost": round(float(db.scalar(select(func.sum(calls.c.cost))) or 0), 6),
            }


def _grouped(db: Connection, column: Column[Any], only: Any = None) -> dict[str, int]:
    query = select(column, func.count()).group_by(column).order_by(column)
    if only is not None:
        query = query.where(only)
    return {name: count for name, count in db.execute(query)}


def _tune(connection: Any, _: object) -> None:
    """Readers beside the writer; a commit survives the end of the process."""
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000"):
        connection.execute(f"PRAGMA {pragma}")
