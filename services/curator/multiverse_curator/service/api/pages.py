"""The page: jobs, their yields and costs, and a sample's original beside its tree.

Rendered here, with all text escaped; one small script asks for the part that moves. What it does
goes through `Curation`, as the API does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, File, Form, Request, Response, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from multiverse_curator.export import Format
from multiverse_curator.faults import STAGES, Stage
from multiverse_curator.service.api.door import COOKIE
from multiverse_curator.service.api.jobs import tenant_of
from multiverse_curator.service.curation import Curation
from multiverse_curator.service.options import JobOptions, Priority
from multiverse_curator.service.tree_view import shown
from multiverse_curator.store import State
from multiverse_curator.store.jobs import Job
from multiverse_curator.store.views import MOST_ID
from multiverse_shared.api_keys import KeyFile
from multiverse_shared.errors import MultiverseError, status_of

TEMPLATES = Path(__file__).parents[1] / "templates"
ROWS = 50
DAY_S = 24 * 3600


def routes(curation: Curation, keys: KeyFile | None) -> APIRouter:
    router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)
    jobs, views = curation.jobs, curation.views
    templates = _environment()

    def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
        has_keys = keys is not None
        return HTMLResponse(
            templates.get_template(template).render(**values, has_keys=has_keys), status
        )

    def attempt(do: Callable[[], str]) -> Response:
        """Where to go after it, or a page that says why not."""
        try:
            return RedirectResponse(do(), 303)
        except MultiverseError as error:
            return render("refused.html", status_of(type(error)).http, message=error.message)

    def progress_of(job: Job) -> dict[str, Any]:
        return {"job": job, "stages": views.stages(job.id), "calls": views.calls(job.id)}

    @router.get("/login")
    def login() -> HTMLResponse:
        return render("login.html", wrong=False)

    @router.post("/login")
    def enter(request: Request, key: Annotated[str, Form()]) -> Response:
        if keys is not None and keys.ring.find(key) is None:
            return render("login.html", 401, wrong=True)
        response = RedirectResponse("/", 303)
        secure = request.url.scheme == "https"
        response.set_cookie(
            COOKIE, key, max_age=DAY_S, httponly=True, samesite="strict", secure=secure
        )
        return response

    @router.post("/logout")
    def leave() -> Response:
        response = RedirectResponse("/login", 303)
        response.delete_cookie(COOKIE)
        return response

    @router.get("/")
    def list_jobs(request: Request) -> HTMLResponse:
        page = jobs.page(tenant_of(request), ROWS)
        return render("jobs.html", jobs=page, teachers=list(curation.teachers), priorities=Priority)

    @router.post("/jobs")
    def submit(
        request: Request,
        file: Annotated[UploadFile, File()],
        teacher: Annotated[str, Form()],
        priority: Annotated[Priority, Form()] = Priority.NORMAL,
        budget: Annotated[str, Form()] = "",
    ) -> Response:
        def do() -> str:
            given = {"budget": budget} if budget.strip() else {}
            chosen = JobOptions.model_validate({"teacher": teacher, "priority": priority, **given})
            name = file.filename or "upload"
            job, _ = curation.submit(file.file, name, chosen, tenant_of(request))
            return f"/jobs/{job.id}"

        return attempt(do)

    @router.get("/jobs/{job}")
    def show_job(
        request: Request, job: str, state: str = "", stage: str = "", after: int = 0
    ) -> Response:
        try:
            found = jobs.get(job, tenant_of(request))
        except MultiverseError as error:
            return render("refused.html", 404, message=error.message)
        rows = views.page(
            job,
            state=State(state) if state in set(State) else None,
            stage=Stage(stage) if stage in set(STAGES) else None,
            after=min(max(0, after), MOST_ID),
            limit=ROWS,
        )
        return render(
            "job.html",
            **progress_of(found),
            rows=rows,
            after=rows[-1].id if len(rows) == ROWS else None,
            chosen={"state": state, "stage": stage},
            states=list(State),
            broken=views.broken(job),
            datasets=[
                (one, curation.files(one))
                for one in curation.datasets.page(tenant_of(request), ROWS, job)
            ],
        )

    @router.get("/jobs/{job}/progress")
    def progress(request: Request, job: str) -> HTMLResponse:
        return render("progress.html", **progress_of(jobs.get(job, tenant_of(request))))

    @router.post("/jobs/{job}/{action}")
    def act(request: Request, job: str, action: str) -> Response:
        tenant = tenant_of(request)
        actions: dict[str, Callable[[], object]] = {
            "pause": lambda: jobs.pause(job, tenant),
            "resume": lambda: jobs.resume(job, tenant),
            "cancel": lambda: jobs.cancel(job, tenant),
            "retry": lambda: jobs.retry(job, tenant, None),
            "export": lambda: curation.export(job, tenant, Format.JSONL, 0.05),
        }
        if action not in actions:
            return render("refused.html", 404, message=f"a job can't {action!r}")

        def do() -> str:
            actions[action]()
            return f"/jobs/{quote(job)}"

        return attempt(do)

    @router.get("/samples/{sample}")
    def show_sample(request: Request, sample: int) -> Response:
        try:
            detail = views.detail(sample, tenant_of(request))
        except MultiverseError as error:
            return render("refused.html", 404, message=error.message)
        result = detail.result
        tree = shown(result["tree"], result["curation"]["labels"]) if result else None
        return render("sample.html", detail=detail, tree=tree, stages=STAGES)

    return router


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = lambda share: f"{100 * share:.1f}%"
    environment.filters["money"] = lambda amount: f"{amount:.4f}"
    environment.filters["moment"] = lambda at: (
        time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) if at else ""
    )
    return environment
