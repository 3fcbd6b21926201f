"""The commands of the operators' pages are run as they stand there, page by page.

Blocks marked `sh` are run; `sh elsewhere` are what a test can't do again (the set-up it stands on).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from multiverse_cli.stack import Stack, free_port
from tests.e2e.conftest import MODEL

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WITHIN_S = 280
SERVED = ["debugging", "security", "sizing"]  # they speak to a router that runs
OWN = ["install", "upgrading"]  # they start it, and follow one another
PORTS = ("7071", "7072", "8000", "9071", "9072")


def blocks(page: str) -> list[str]:
    text = (DOCS / f"{page}.md").read_text("utf-8")
    found = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found, "a page without commands needs no test"
    return found


def run(folder: Path, commands: list[str], ports: dict[str, int]) -> str:
    """What bash says; the ports of the pages are replaced, and its children end with it."""
    for name in ("models", "loadtest", "deploy"):
        (folder / name).symlink_to(ROOT / name)
    script = "\n".join(["trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *commands])
    for written, port in ports.items():
        script = re.sub(rf"(?<=[:=]){written}\b", str(port), script)
    (folder / "script.sh").write_text(script)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    command = ["bash", "-eu", "-o", "pipefail", "script.sh"]
    with (folder / "said").open("wb") as said, (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=said, stderr=log, start_new_session=True
        )
        try:
            status = process.wait(WITHIN_S)
        finally:
            with suppress(ProcessLookupError):  # all that it started, if it is still there
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    text = (folder / "said").read_text("utf-8")
    assert status == 0, f"{text[-2000:]}\n{(folder / 'log').read_text()[-4000:]}"
    return text


pytestmark = pytest.mark.timeout(WITHIN_S + 20)


@pytest.fixture(scope="module")
def served() -> Iterator[Stack]:
    with Stack(MODEL, worker_settings={"engine": "sim", "sim_speed": "100"}) as stack:
        yield stack


@pytest.mark.parametrize("page", SERVED)
def test_commands_that_speak_to_a_router(page: str, served: Stack, tmp_path: Path) -> None:
    assert run(tmp_path, blocks(page), {"8000": served.port}).strip()


def test_install_upgrade_and_roll_back(tmp_path: Path) -> None:
    commands = [block for page in OWN for block in blocks(page)]
    said = run(tmp_path, commands, {port: free_port() for port in PORTS})
    assert said.count('"status":"ready"') == 3  # installed, one worker gone, a new router


def test_every_page_with_commands_is_run() -> None:
    pages = {page.stem for page in DOCS.glob("*.md") if "```sh\n" in page.read_text("utf-8")}
    assert pages == {*SERVED, *OWN}
