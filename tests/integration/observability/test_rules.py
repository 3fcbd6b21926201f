"""Rules and dashboards as files: they are legal, do what they say, and are what the table makes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.observability.queries import (
    DASHBOARDS,
    FOLDER,
    RULES,
    expressions,
    metrics,
    rules,
)

TESTS = sorted((FOLDER / "tests").glob("*.test.yaml"))


def promtool(*arguments: str | Path) -> str:
    found = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_promtool_takes_the_rules_and_their_tests_pass() -> None:
    assert "SUCCESS" in promtool("check", "rules", "--lint-fatal", *RULES)
    assert "SUCCESS" in promtool("test", "rules", *TESTS)


def test_every_alert_is_tested_and_says_what_to_read() -> None:
    told = "".join(file.read_text() for file in TESTS)
    page = (FOLDER.parents[1] / "docs" / "debugging.md").read_text()
    alerts = [rule["alert"] for rule in rules() if "alert" in rule]
    assert len(alerts) > 8
    for alert in alerts:
        assert f"alertname: {alert}\n" in told, "it has to fire in a test"
        assert f"`{alert}`" in page


def test_every_expression_is_parsed_and_names_metrics() -> None:
    for expression in expressions():
        assert metrics(expression), expression


def test_an_expression_that_is_wrong_is_not_parsed() -> None:
    with pytest.raises(ValueError, match=r".+"):
        metrics("sum by (model) (rate(a[5m])")


def test_dashboards_are_what_their_table_makes(tmp_path: Path) -> None:
    package = FOLDER.parents[1] / "scripts" / "dashboards"
    shutil.copytree(package, tmp_path / "scripts" / "dashboards")
    subprocess.run([sys.executable, "-m", "scripts.dashboards"], cwd=tmp_path, check=True)
    made = sorted((tmp_path / "deploy" / "observability" / "dashboards").glob("*.json"))
    assert [file.name for file in made] == [file.name for file in DASHBOARDS]
    for new, old in zip(made, DASHBOARDS, strict=True):
        assert new.read_text() == old.read_text(), f"run python -m scripts.dashboards: {old.name}"
        ids = [panel["id"] for panel in json.loads(new.read_text())["panels"]]
        assert len(ids) == len(set(ids))
