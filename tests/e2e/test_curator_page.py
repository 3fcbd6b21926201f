"""The curator's page in a headless Chromium."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from multiverse_curator.source import Source
from multiverse_shared.api_keys import new_key
from tests.integration.curator.served import teacher_server
from tests.integration.curator.stack import CuratorStack, until, upload
from tests.unit.curator.generated import generated

pytestmark = pytest.mark.timeout(600)  # a loaded machine starts a service slowly
WITHIN_MS = 120_000.0
SCREENSHOTS = os.environ.get("CURATOR_SCREENSHOTS")  # folder to put pictures of the page into
SCRIPT = "<script>document.title = 'taken over'</script><img src=x onerror=\"document.title='x'\">"
HOSTILE = Source(
    id=f"hostile {SCRIPT}",
    prompt=f"What is {SCRIPT}?",
    reasoning=f"Case 1: {SCRIPT} is even. Fine.\n"
    f"Case 2: it is odd {SCRIPT}. Bad.\n\nSo it is done.",
)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CuratorStack]:
    database = f"sqlite:///{tmp_path_factory.mktemp('page')}/curator.db"
    with teacher_server(latency=0.3) as url, CuratorStack(database, url, threads=4) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "no chromium: install it (scripts/setup.sh all)"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, stack: CuratorStack) -> Iterator[Page]:
    with browser.new_context(
        base_url=stack.url, viewport={"width": 1280, "height": 860}
    ) as context:
        context.set_default_timeout(WITHIN_MS)
        yield context.new_page()


def picture(page: Page, name: str) -> None:
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


def test_submit_watch_and_open_a_sample(page: Page, tmp_path: Path) -> None:
    kinds = ("cases", "nested", "terms")
    rows = [one for one in generated(80, seed=31) if one.id.startswith(kinds)][:12]
    file = tmp_path / "reasoning.jsonl"
    file.write_text("\n".join(one.model_dump_json() for one in rows), "utf-8")
    page.goto("/")
    page.set_input_files("input[name=file]", file)
    page.select_option("select[name=teacher]", "scripted")
    page.click("form.submit button")
    progress = page.locator("#progress")
    first = progress.get_attribute("data-ended")
    assert first is not None
    expect(progress).not_to_have_attribute("data-ended", first, timeout=WITHIN_MS)
    expect(progress).to_have_attribute("data-state", "done", timeout=WITHIN_MS)
    page.click("nav >> text=converted")
    picture(page, "curator_job")
    page.locator("table tbody tr td a", has_text=re.compile("^cases")).first.click()
    paths = page.locator("#tree .paths").first.locator(":scope > .path")
    assert paths.count() >= 2
    boxes = [paths.nth(n).bounding_box() for n in range(2)]
    assert boxes[0]
    assert boxes[1]
    assert boxes[0]["y"] == boxes[1]["y"]  # side by side
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    original, tree = page.locator("#original").bounding_box(), page.locator("#tree").bounding_box()
    assert original
    assert tree
    assert original["x"] + original["width"] <= tree["x"]
    assert "Case 1" in page.locator("#original").inner_text()
    picture(page, "curator_sample")
    page.goto("/")
    expect(page.locator("tbody .state").first).to_have_text("done")


def test_text_of_samples_is_shown_as_text(page: Page, stack: CuratorStack) -> None:
    with stack.client() as client:
        job = upload(client, [HOSTILE], name=f"job {SCRIPT}")
        until(client, job, "done")
        sample = client.get(f"/v1/jobs/{job}/samples").json()["samples"][0]
        assert sample["state"] == "converted"
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    for path in ("/", f"/jobs/{job}", f"/samples/{sample['id']}"):
        page.goto(path)
        assert SCRIPT in page.locator("main").inner_text()
        assert page.locator("main script, main img").count() == 0
        assert page.title() not in ("taken over", "x")
    assert SCRIPT in page.locator("#tree .path").first.inner_text()
    assert SCRIPT in page.locator("#original").inner_text()
    assert errors == []


def test_a_key_opens_the_page_and_tenants_see_their_own(browser: Browser, tmp_path: Path) -> None:
    alice, line = new_key("alice")
    bob, other = new_key("bob")
    database = f"sqlite:///{tmp_path}/curator.db"
    with (
        CuratorStack(database, workers=0, keys=f"{line},{other}") as stack,
        stack.client(headers={"authorization": f"Bearer {alice}"}) as client,
        browser.new_context(base_url=stack.url) as context,
    ):
        job = upload(client, generated(2, seed=32), name="of alice")
        assert client.get("/v1/jobs", headers={"authorization": "Bearer none"}).status_code == 401
        as_bob = {"authorization": f"Bearer {bob}"}
        for path in (f"/v1/jobs/{job}", "/v1/samples/1", f"/v1/jobs/{job}/samples"):
            assert client.get(path, headers=as_bob).status_code == 404
            assert client.get(path).status_code == 200
        assert client.get("/v1/jobs", headers=as_bob).json()["jobs"] == []
        page = context.new_page()
        page.goto("/")
        assert page.url.endswith("/login")
        page.fill("input[name=key]", "wrong")
        page.click("text=log in")
        assert "not known" in page.locator("main").inner_text()
        page.fill("input[name=key]", alice)
        page.click("text=log in")
        assert "of alice" in page.locator("main").inner_text()
        assert page.evaluate("document.cookie") == ""
        [cookie] = context.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        forged = {"origin": "http://elsewhere.example", "cookie": f"multiverse_key={alice}"}
        refused = client.post(f"/jobs/{job}/cancel", headers=forged)
        assert refused.status_code == 403
        page.goto(f"/jobs/{job}")
        page.click("button >> text=cancel")
        expect(page.locator("#progress")).to_have_attribute("data-state", "cancelled")
