"""Jobs: submit, follow, pause, resume, cancel; their samples and dead letters."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, File, Form, Header, Query, Request, Response, UploadFile
from pydantic import ValidationError

from multiverse_curator.faults import Stage
from multiverse_curator.service.api.bodies import (
    JobDetail,
    JobPage,
    JobView,
    Resume,
    Retried,
    Retry,
    SampleDetail,
    SamplePage,
    SampleRow,
    SubmitPath,
)
from multiverse_curator.service.curation import Curation
from multiverse_curator.service.options import JobOptions
from multiverse_curator.store import State
from multiverse_curator.store.jobs import Job
from multiverse_curator.store.views import MOST_ID
from multiverse_shared.errors import InvalidRequest

MOST = 200  # rows of a page
Limit = Annotated[int, Query(ge=1, le=MOST)]
Submission = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        max_length=200,
        description="your own name for this submission: sent again, it is the same job",
    ),
]


def tenant_of(request: Request) -> str:
    """Name of the key; empty where there are none."""
    return str(request.scope["state"]["tenant"])


def read_options(text: str) -> JobOptions:
    """InvalidRequest names the field."""
    try:
        return JobOptions.model_validate_json(text or "{}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(["options", *map(str, first["loc"])])
        raise InvalidRequest(f"{field}: {first['msg']}", field=field) from None


def routes(curation: Curation) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["jobs"])
    jobs, views = curation.jobs, curation.views

    def told(job: Job, new: bool, response: Response) -> JobView:
        response.status_code = 201 if new else 200
        return JobView.of(job)

    @router.post("/jobs", status_code=201)
    def submit_path(
        request: Request, response: Response, body: SubmitPath, submission: Submission = None
    ) -> JobView:
        """Submit a file that lies in the service's input folder. 200: it was submitted before."""
        options = JobOptions.model_validate(body.model_dump(exclude={"path"}))
        job, new = curation.submit_path(body.path, options, tenant_of(request), submission)
        return told(job, new, response)

    @router.post("/jobs/upload", status_code=201)
    def submit_upload(
        request: Request,
        response: Response,
        file: Annotated[UploadFile, File(description="JSONL, or .gz of it")],
        options: Annotated[str, Form(description="options of the job, as JSON")] = "{}",
        submission: Submission = None,
    ) -> JobView:
        """Submit a file with the request. 200: it was submitted before."""
        chosen, name = read_options(options), file.filename or "upload"
        job, new = curation.submit(file.file, name, chosen, tenant_of(request), submission)
        return told(job, new, response)

    @router.get("/jobs")
    def list_jobs(request: Request, limit: Limit = 50, before: str | None = None) -> JobPage:
        """Your jobs, the newest first."""
        page = jobs.page(tenant_of(request), limit, _cursor(before))
        last = page[-1] if len(page) == limit else None
        follows = f"{last.created!r}:{last.id}" if last else None
        return JobPage(jobs=[JobView.of(job) for job in page], next=follows)

    @router.get("/jobs/{job}")
    def get_job(request: Request, job: str) -> JobDetail:
        """How far a job is, what it cost, and where its samples stand."""
        found = jobs.get(job, tenant_of(request))
        return JobDetail.with_details(found, views.stages(job), views.calls(job), views.broken(job))

    @router.post("/jobs/{job}/pause")
    def pause(request: Request, job: str) -> JobView:
        """Ask nothing new; what is in flight ends, and counts."""
        return JobView.of(jobs.pause(job, tenant_of(request)))

    @router.post("/jobs/{job}/resume")
    def resume(request: Request, job: str, body: Resume | None = None) -> JobView:
        """Go on; with a larger budget, if one is given."""
        return JobView.of(jobs.resume(job, tenant_of(request), (body or Resume()).budget))

    @router.post("/jobs/{job}/cancel")
    def cancel(request: Request, job: str) -> JobView:
        """End for good, calls in flight too. What is converted can be exported."""
        return JobView.of(jobs.cancel(job, tenant_of(request)))

    @router.get("/jobs/{job}/samples")
    def list_samples(
        request: Request,
        job: str,
        state: State | None = None,
        stage: Stage | None = None,
        after: Annotated[int, Query(ge=0, le=MOST_ID)] = 0,
        limit: Limit = 50,
    ) -> SamplePage:
        """Samples in the order of the file; `stage`: pending ones before that stage."""
        jobs.get(job, tenant_of(request))
        rows = views.page(job, state=state, stage=stage, after=after, limit=limit)
        follows = rows[-1].id if len(rows) == limit else None
        return SamplePage(samples=[SampleRow.of(row) for row in rows], next=follows)

    @router.get("/jobs/{job}/dead-letters")
    def list_dead(
        request: Request,
        job: str,
        after: Annotated[int, Query(ge=0, le=MOST_ID)] = 0,
        limit: Limit = 50,
    ) -> SamplePage:
        """Samples that could not be converted, each with the stage and the reason."""
        return list_samples(request, job, State.DEAD, None, after, limit)

    @router.post("/jobs/{job}/dead-letters/retry")
    def retry(request: Request, job: str, body: Retry | None = None) -> Retried:
        """Dead samples begin again where they failed; stored answers are not paid again."""
        chosen = (body or Retry()).samples
        return Retried(retried=jobs.retry(job, tenant_of(request), chosen))

    @router.get("/samples/{sample}")
    def get_sample(request: Request, sample: int) -> SampleDetail:
        """All that is known of a sample: source, outputs of its stages, calls, result."""
        return SampleDetail.with_details(views.detail(sample, tenant_of(request)))

    return router


def _cursor(before: str | None) -> tuple[float, str] | None:
    if before is None:
        return None
    created, _, job = before.partition(":")
    try:
        return float(created), job
    except ValueError:
        raise InvalidRequest("before: give `next` of the page before", field="before") from None
