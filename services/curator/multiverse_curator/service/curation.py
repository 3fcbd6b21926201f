"""What clients may do, whichever way they ask: the API and the page call this.

Knows files and options; the rest is the database's.
"""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import BinaryIO

from multiverse_curator.export import Format, export
from multiverse_curator.service.options import JobOptions
from multiverse_curator.service.settings import CuratorSettings
from multiverse_curator.service.teachers import read_teachers
from multiverse_curator.source import rows
from multiverse_curator.store import Database, Store
from multiverse_curator.store.datasets import Dataset, Datasets
from multiverse_curator.store.jobs import Job, Jobs, NewJob
from multiverse_curator.store.views import Views
from multiverse_shared.errors import InvalidRequest, NotFound


class Curation:
    """InvalidRequest, OSError when the settings can't be used."""

    def __init__(self, settings: CuratorSettings) -> None:
        self._settings = settings
        self.teachers = read_teachers(settings.teachers_file)
        self.database = Database(settings.database.get_secret_value())
        self.jobs = Jobs(self.database)
        self.views = Views(self.database)
        self.datasets = Datasets(self.database)

    def close(self) -> None:
        self.database.close()

    def submit_path(
        self, path: str, options: JobOptions, tenant: str, submission: str | None = None
    ) -> tuple[Job, bool]:
        """See `submit`; InvalidRequest for a path that is not a file of the input folder."""
        folder = self._settings.input_folder
        if folder is None:
            raise InvalidRequest(
                "path: this service has no input folder; upload the file", field="path"
            )
        found = (folder / path).resolve()
        if not found.is_relative_to(folder.resolve()) or not found.is_file():
            raise InvalidRequest(f"path: no file {path!r} in the input folder", field="path")
        with found.open("rb") as file:
            return self.submit(file, found.name, options, tenant, submission)

    def submit(
        self,
        file: BinaryIO,
        name: str,
        options: JobOptions,
        tenant: str,
        submission: str | None = None,
    ) -> tuple[Job, bool]:
        """The job, and whether it is new: the same `submission` is the same job."""
        measures = self._settings.independence_model is not None
        options.check(self.teachers, measures=measures)
        new = NewJob(
            name=options.name or name[:200],
            tenant=tenant,
            options=options.model_dump(mode="json"),
            priority=options.priority.number,
            in_flight=options.in_flight,
            submission=submission,
        )
        return self.jobs.submit(new, rows(file, name[-400:]))

    def export(self, job: str, tenant: str, format: Format, validation: float) -> Dataset:
        """The converted samples as a dataset; it is listed when it is whole."""
        self.jobs.get(job, tenant)
        name = uuid.uuid4().hex
        made = self._settings.dataset_folder / f"{name}.partial"
        try:
            card = export(Store(self.database, job), made, format, validation)
            made.rename(self._settings.dataset_folder / name)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return self.datasets.add(name, job, tenant, format.value, card)

    def files(self, dataset: Dataset) -> list[str]:
        folder = self._settings.dataset_folder / dataset.id
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def file(self, dataset: Dataset, name: str) -> Path:
        """NotFound if the dataset has no such file."""
        if name not in self.files(dataset):
            raise NotFound(f"dataset {dataset.id} has no file {name!r}", field="name")
        return self._settings.dataset_folder / dataset.id / name
