"""Bodies of the API. Times are seconds since 1970; money is that of the teacher's prices."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from multiverse_curator.export import Format
from multiverse_curator.service.options import JobOptions
from multiverse_curator.store.datasets import Dataset
from multiverse_curator.store.jobs import Job, JobState
from multiverse_curator.store.views import MOST_ID, Detail, Row


class SubmitPath(JobOptions):
    """A job of a file that the service can read."""

    path: str = Field(min_length=1, max_length=1000, description="within the input folder")


class Resume(BaseModel):
    model_config = ConfigDict(extra="forbid")

    budget: float | None = Field(None, ge=0, description="replaces the budget of the job")


class Retry(BaseModel):
    model_config = ConfigDict(extra="forbid")

    samples: list[Annotated[int, Field(ge=1, le=MOST_ID)]] | None = Field(
        None, max_length=10_000, description="ids of dead samples; all of them if left out"
    )


class Retried(BaseModel):
    retried: int


class Export(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Format = Format.JSONL
    validation: float = Field(0.05, ge=0, le=1, description="share held out")


class Counts(BaseModel):
    pending: int
    converted: int
    sequential: int
    dead: int
    broken_rows: int


class JobView(BaseModel):
    id: str
    name: str
    state: JobState
    reason: str = Field(description="why it paused, if the service paused it")
    created: float
    ended: float | None
    progress: float = Field(description="share of the samples that have ended")
    yields: float = Field(description="share of the ended samples that were converted")
    samples: Counts
    input_tokens: int
    output_tokens: int
    spent: float
    options: JobOptions

    @classmethod
    def of(cls, job: Job) -> JobView:
        return cls(**_job(job))


class JobDetail(JobView):
    stages: dict[str, int] = Field(description="pending samples by the stage that is next")
    calls: dict[str, int] = Field(description="calls to the teacher by what became of them")
    broken: list[BrokenRow] = Field(description="rows that were left out, the first hundred")

    @classmethod
    def with_details(
        cls,
        job: Job,
        stages: dict[str, int],
        calls: dict[str, int],
        broken: list[tuple[str, int, str]],
    ) -> JobDetail:
        rows = [BrokenRow(file=file, line=line, reason=why) for file, line, why in broken]
        return cls(**_job(job), stages=stages, calls=calls, broken=rows)


class BrokenRow(BaseModel):
    file: str
    line: int
    reason: str


class JobPage(BaseModel):
    jobs: list[JobView]
    next: str | None = Field(description="`before` of the next page")


class SampleRow(BaseModel):
    id: int
    key: str
    title: str = Field(description="the beginning of the prompt")
    state: str
    stage: str = Field(description="the next one, while the sample is pending")
    reason: str
    failed_stage: str

    @classmethod
    def of(cls, row: Row) -> SampleRow:
        return cls(**{name: getattr(row, name) for name in cls.model_fields})


class SamplePage(BaseModel):
    samples: list[SampleRow]
    next: int | None = Field(description="`after` of the next page")


class CallRow(BaseModel):
    id: int
    stage: str
    state: str
    begun: float
    input_tokens: int
    output_tokens: int
    cost: float
    note: str


class SampleDetail(SampleRow):
    job: str
    source: dict[str, Any]
    tries: dict[str, int]
    outputs: dict[str, Any] = Field(description="by stage")
    result: dict[str, Any] | None
    calls: list[CallRow]

    @classmethod
    def with_details(cls, detail: Detail) -> SampleDetail:
        row = {name: getattr(detail.row, name) for name in SampleRow.model_fields}
        return cls(
            **row,
            job=detail.job.id,
            source=detail.source,
            tries=detail.tries,
            outputs=detail.outputs,
            result=detail.result,
            calls=[
                CallRow(**{name: getattr(call, name) for name in CallRow.model_fields})
                for call in detail.calls
            ],
        )


class DatasetView(BaseModel):
    id: str
    job: str
    format: str
    created: float
    files: list[str]
    card: dict[str, Any]

    @classmethod
    def of(cls, dataset: Dataset, files: list[str]) -> DatasetView:
        return cls(
            id=dataset.id,
            job=dataset.job,
            format=dataset.format,
            created=dataset.created,
            files=files,
            card=dataset.card,
        )


class DatasetPage(BaseModel):
    datasets: list[DatasetView]


class TeacherView(BaseModel):
    name: str
    kind: str
    model: str | None
    price_input: float
    price_output: float


class TeacherList(BaseModel):
    teachers: list[TeacherView]


def _job(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state,
        "reason": job.reason,
        "created": job.created,
        "ended": job.ended,
        "progress": round(job.progress, 6),
        "yields": round(job.yields, 6),
        "samples": Counts(
            pending=job.pending,
            converted=job.converted,
            sequential=job.sequential,
            dead=job.dead,
            broken_rows=job.broken,
        ),
        "input_tokens": job.input_tokens,
        "output_tokens": job.output_tokens,
        "spent": round(job.spent, 6),
        "options": JobOptions.model_validate(job.options),
    }
