"""Datasets that were written of jobs: what is in them, where they came from."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from multiverse_curator.store.database import Database
from multiverse_curator.store.tables import datasets
from multiverse_shared.errors import NotFound


@dataclass(frozen=True, slots=True)
class Dataset:
    """`card` as `export` returns it. Files lie in a folder with the name of the id."""

    id: str
    job: str
    tenant: str
    format: str
    created: float
    card: dict[str, Any]


_COLUMNS = [datasets.c[name] for name in Dataset.__dataclass_fields__]


class Datasets:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, dataset: str, job: str, tenant: str, format: str, card: dict[str, Any]
    ) -> Dataset:
        made = Dataset(dataset, job, tenant, format, time.time(), card)
        row = {name: getattr(made, name) for name in Dataset.__dataclass_fields__}
        with self._database.write() as db:
            db.execute(datasets.insert().values(row))
        return made

    def get(self, dataset: str, tenant: str) -> Dataset:
        """NotFound if there is none, or it is another's."""
        mine = (datasets.c.id == dataset) & (datasets.c.tenant == tenant)
        with self._database.read() as db:
            row = db.execute(select(*_COLUMNS).where(mine)).one_or_none()
        if row is None:
            raise NotFound(f"no dataset {dataset!r}", field="dataset")
        return Dataset(**row._mapping)

    def page(self, tenant: str, limit: int, job: str | None = None) -> list[Dataset]:
        """The newest first."""
        query = select(*_COLUMNS).where(datasets.c.tenant == tenant)
        if job is not None:
            query = query.where(datasets.c.job == job)
        newest = query.order_by(datasets.c.created.desc(), datasets.c.id.desc()).limit(limit)
        with self._database.read() as db:
            return [Dataset(**row._mapping) for row in db.execute(newest)]
