"""Tables in the documentation, between two marks that say where each comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import BaseModel

from deploy.generator.described import NONE, default_of
from deploy.generator.processes import PROCESSES, Process
from deploy.generator.values.chart import ChartValues
from deploy.generator.values_file import plain

CHART_PAGE = "docs/deploy.md"


def pages() -> set[str]:
    return {*(process.page for process in PROCESSES), CHART_PAGE}


def with_tables(page: str, text: str) -> str:
    """The text of a page with its tables made anew. ValueError when it has no place for one."""
    for process in PROCESSES:
        if process.page == page:
            text = _put(text, process.name, settings_table(process))
    return _put(text, "chart", chart_table()) if page == CHART_PAGE else text


def settings_table(process: Process) -> str:
    """A row for each setting, by the name of its variable without the prefix."""
    rows = ["| setting | default | |", "| --- | --- | --- |"]
    for name, info in process.fields.items():
        default = default_of(info)
        shown = default if default in (NONE, "required") else f"`{default}`"
        rows.append(f"| `{name.upper()}` | {shown} | {info.description or ''} |")
    return "\n".join(rows)


def chart_table() -> str:
    rows = ["| value | default | |", "| --- | --- | --- |"]
    rows += [f"| `{key}` | {default} | {said} |" for key, default, said in _values(ChartValues())]
    return "\n".join(rows)


def _values(values: BaseModel, before: str = "") -> Iterator[tuple[str, str, str]]:
    for name, info in type(values).model_fields.items():
        value = getattr(values, name)
        key = before + (info.alias or name)
        if isinstance(value, BaseModel):
            yield from _values(value, f"{key}.")
        else:
            yield (
                key,
                NONE if value in ("", {}, []) else f"`{plain(value)}`",
                info.description or "",
            )


def _put(text: str, name: str, table: str) -> str:
    begin, end = f"<!-- settings: {name} -->", "<!-- end of settings -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page needs the lines {begin} and {end}, where its table goes")
    return pattern.sub(lambda _: f"{begin}\n{table}\n{end}", text, count=1)
