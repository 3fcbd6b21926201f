"""Datasets: what was exported of jobs. Also the teachers that jobs may name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse

from multiverse_curator.service.api.bodies import (
    DatasetPage,
    DatasetView,
    Export,
    TeacherList,
    TeacherView,
)
from multiverse_curator.service.api.jobs import MOST, tenant_of
from multiverse_curator.service.curation import Curation


def routes(curation: Curation) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["datasets"])
    datasets = curation.datasets

    @router.post("/jobs/{job}/export", status_code=201)
    def export(request: Request, job: str, body: Export | None = None) -> DatasetView:
        """Write the converted samples as a dataset in the trainer's format, with its card."""
        chosen = body or Export()
        made = curation.export(job, tenant_of(request), chosen.format, chosen.validation)
        return DatasetView.of(made, curation.files(made))

    @router.get("/datasets")
    def list_datasets(
        request: Request,
        job: str | None = None,
        limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    ) -> DatasetPage:
        """Your datasets, the newest first."""
        page = datasets.page(tenant_of(request), limit, job)
        return DatasetPage(datasets=[DatasetView.of(one, curation.files(one)) for one in page])

    @router.get("/datasets/{dataset}")
    def get_dataset(request: Request, dataset: str) -> DatasetView:
        """A dataset, its card and its files."""
        found = datasets.get(dataset, tenant_of(request))
        return DatasetView.of(found, curation.files(found))

    @router.get("/datasets/{dataset}/files/{name}", response_class=FileResponse)
    def get_file(request: Request, dataset: str, name: str) -> FileResponse:
        """One file of a dataset."""
        path = curation.file(datasets.get(dataset, tenant_of(request)), name)
        return FileResponse(path, filename=path.name, media_type="application/octet-stream")

    @router.get("/teachers")
    def list_teachers() -> TeacherList:
        """Who may be asked here."""
        return TeacherList(
            teachers=[
                TeacherView(
                    name=name,
                    kind=entry.kind.value,
                    model=entry.model,
                    price_input=entry.price_input,
                    price_output=entry.price_output,
                )
                for name, entry in curation.teachers.items()
            ]
        )

    return router
