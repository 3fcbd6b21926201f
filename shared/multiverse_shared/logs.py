"""What a process says of itself: lines of text, or of JSON for whoever collects them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["text", "json"]
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_NOTHING: Mapping[str, str] = {}


class JsonLines(logging.Formatter):
    """One object a line: `time`, `level`, `logger`, `message`, `error`, and what `known` says."""

    def __init__(self, known: Callable[[], Mapping[str, str]]) -> None:
        super().__init__()
        self._known = known

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._known(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def log_to_stderr(
    level: str, form: LogFormat, known: Callable[[], Mapping[str, str]] = lambda: _NOTHING
) -> None:
    """Set up the log of this process. `known` is asked for each line: what it is about."""
    lines = logging.StreamHandler()
    lines.setFormatter(JsonLines(known) if form == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level, handlers=[lines])
