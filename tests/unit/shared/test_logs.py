"""Lines of a log as JSON: one object each, with what the line is about."""

from __future__ import annotations

import json
import logging
import sys
from contextvars import Context

from multiverse_router.visit import Visit, about, current
from multiverse_shared.logs import JsonLines


def record(message: str, *arguments: object, failed: bool = False) -> logging.LogRecord:
    error = None
    if failed:
        try:
            raise ValueError("broken\nin two")
        except ValueError:
            error = sys.exc_info()
    return logging.LogRecord("a.b", logging.WARNING, "file", 1, message, arguments, error)


def test_a_line_is_one_object_however_many_lines_its_text_has() -> None:
    line = JsonLines(dict).format(record("one\ntwo %s", "é", failed=True))
    assert "\n" not in line
    said = json.loads(line)
    assert said["message"] == "one\ntwo é"
    assert (said["level"], said["logger"]) == ("WARNING", "a.b")
    assert said["error"].endswith("ValueError: broken\nin two")
    assert said["time"].endswith("Z")


def test_a_line_about_a_request_names_it_and_others_do_not() -> None:
    lines = JsonLines(about)

    def said() -> dict[str, str]:
        line: dict[str, str] = json.loads(lines.format(record("x")))
        return line

    def during_a_visit() -> dict[str, str]:
        current.set(Visit("mine", tenant="alice"))
        return said()

    assert "request_id" not in Context().run(said)
    visited = Context().run(during_a_visit)
    assert (visited["request_id"], visited["tenant"]) == ("mine", "alice")
