"""One JSON and one HTML file of a run; pictures stand inside the page."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }}
table {{ border-collapse: collapse }} td, th {{ border: 1px solid #ccc; padding: .2em .6em }}
td {{ vertical-align: top }} th {{ text-align: left; font-weight: normal; color: #444 }}
img {{ max-width: 100% }}
</style></head><body>
<h1>{title}</h1>
{pictures}
{table}
</body></html>
"""


def write_report(
    folder: Path, title: str, result: dict[str, Any], pictures: Sequence[Path] = ()
) -> None:
    """`report.json` and `report.html` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    shown = "\n".join(_picture(path) for path in pictures)
    page = _PAGE.format(title=escape(title), pictures=shown, table=_table(result))
    (folder / "report.html").write_text(page, "utf-8")


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<p><img alt="{escape(path.stem)}" src="data:image/png;base64,{data}"></p>'


def _table(value: Any) -> str:
    if isinstance(value, dict):
        rows = "".join(
            f"<tr><th>{escape(str(name).replace('_', ' '))}</th><td>{_table(inner)}</td></tr>"
            for name, inner in value.items()
        )
        return f"<table>{rows}</table>"
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return "".join(map(_table, value))
    return escape(json.dumps(value, ensure_ascii=False))
