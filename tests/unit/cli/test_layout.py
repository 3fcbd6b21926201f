"""`multiverse layout`: what is read, what is drawn, what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib import image
from matplotlib.colors import to_rgb
from typer.testing import CliRunner

from multiverse_cli.layout.drawing import MOST_TOKENS, Drawing
from multiverse_cli.layout.source import Source, load
from multiverse_cli.layout.terminal import lines
from multiverse_cli.main import app
from multiverse_shared.errors import InvalidRequest, RequestTooLarge
from tests.conformance.trees import tree_of_case, vector_cases

DATA = Path(__file__).parents[2] / "data"
VECTORS = sorted(DATA.glob("layout_*.json"))
HALVES = {"█": (1, 1), "▀": (1, 0), "▄": (0, 1), " ": (0, 0)}
OUTPUT = "ab\n<Parallel><Goal><Outline>1:c</Outline></Goal><Path>1:d</Path>"


def drawing_of(case: dict[str, Any]) -> Drawing:
    return Drawing.of(Source(tree_of_case(case), tuple(map(str, case["tokens"]))))


def tree(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(content), "utf-8")
    return path


def run(*arguments: object, columns: int = 200) -> str:
    """What the command prints; errors are raised."""
    result = CliRunner().invoke(
        app,
        ["layout", *map(str, arguments)],
        env={"COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns)},
        catch_exceptions=False,
    )
    return result.stdout


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_every_vector_is_read_as_its_tree_and_drawn_as_its_layout(path: Path) -> None:
    for row, case in enumerate(vector_cases(path), 1):
        assert load(path, row, "multiverse").context == tree_of_case(case)
        drawing = drawing_of(case)
        assert [token.position for token in drawing.tokens] == case["positions"]
        assert drawing.next_position == case["next_position"]
        drawn = ["".join("01"[sees] for sees in token.seen) for token in drawing.tokens]
        assert drawn == case["visible"]


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.stem)
def test_the_half_blocks_in_the_terminal_are_the_mask(path: Path) -> None:
    for case in vector_cases(path):
        size = len(case["tokens"])
        told = [line.plain for line in lines(drawing_of(case))]
        start = told.index("") - (size + 1) // 2
        marks = [line[len(line) - size :] for line in told[start : told.index("")]]
        mask = [[HALVES[mark] for mark in line] for line in marks]
        rows = ["".join(str(pair[half]) for pair in line) for line in mask for half in (0, 1)]
        assert rows[:size] == case["visible"]
        assert all(set(row) == {"0"} for row in rows[size:])


def test_positions_and_paths_stand_along_the_axes_and_in_the_legend() -> None:
    told = run(DATA / "layout_reserve.json", "--row", 2)  # a gap: 3 to 6, then 23
    assert [line.rstrip() for line in told.splitlines()[:6]] == [
        "     path 0  0.1 0.2 0",
        "                 222222",
        " position 0123456345678",
        "0    0  1 █▄",
        "0.1  2  3 ███▄",
        "     4  5 █████▄",
    ]
    assert "path 0.2: 4 tokens at positions 23 to 26" in told
    assert "13 tokens, the next one at 29" in told


def test_each_path_has_a_colour_of_its_own_and_the_root_always_the_same() -> None:
    drawing = drawing_of(vector_cases(DATA / "layout_stitch.json")[8])
    colours = [drawing.colour(path) for path in drawing.paths]
    assert len(set(colours)) == len(drawing.paths) == 7
    legend = lines(drawing)[-len(colours) - 1 : -1]
    assert [line.style for line in legend] == colours


def test_a_recorded_output_is_drawn_by_characters_and_tags(tmp_path: Path) -> None:
    path = tmp_path / "outputs.jsonl"
    path.write_text("".join(json.dumps({"output": o}) + "\n" for o in ("x", OUTPUT)), "utf-8")
    told = run(path, "--row", 2, "--dialect", "multiverse")
    assert "path 0.1: 5 tokens at positions 11 to 15  <Path>1:d</Path>" in told
    assert "ab⏎<Parallel>" in told


def test_a_picture_has_the_mask_in_it(tmp_path: Path) -> None:
    seen = {}
    for name, closed in (("closed", True), ("open", False)):
        out = tmp_path / f"{name}.png"
        paths = [[{"text": [2] * 8}], [{"text": [3] * 8}]]
        source = {"rule": "linear", "context": [{"text": [1]}, {"paths": paths, "closed": closed}]}
        run(tree(tmp_path, source), "--png", out)
        picture = image.imread(out)[..., :3]
        assert picture.shape[0] > 400
        first = to_rgb(Drawing.of(load(tmp_path / "tree.json", 1, "")).colour("0.1"))
        seen[name] = (abs(picture - first).max(axis=2) < 0.01).sum()
    assert seen["closed"] > 1.5 * seen["open"], "the second path sees the first one's tokens"


def test_a_tree_that_is_too_large_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tree(tmp_path, {"context": [{"text": [0] * (MOST_TOKENS + 1)}]})
    with pytest.raises(RequestTooLarge, match=r"401 tokens .*--row N.*multiverse parse"):
        run(path)


def test_a_mask_wider_than_the_terminal_is_only_drawn_as_a_picture(tmp_path: Path) -> None:
    path, out = tree(tmp_path, {"context": [{"text": [0] * 95}]}), tmp_path / "mask.png"
    with pytest.raises(RequestTooLarge, match=r"104 columns .* has 100: .*--png OUT"):
        run(path, columns=100)
    assert "wider than the terminal" in run(path, "--png", out, columns=100)
    assert out.exists()


def test_a_picture_without_matplotlib_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("matplotlib", "matplotlib.colors", "matplotlib.figure", "matplotlib.patches"):
        monkeypatch.setitem(sys.modules, module, None)
    path = tree(tmp_path, {"context": [{"text": [1]}]})
    with pytest.raises(InvalidRequest, match=r"multiverse-cli\[png\]"):
        run(path, "--png", tmp_path / "mask.png")
    assert "1 tokens" in run(path), "the terminal needs none"


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ([], "context must be a list"),
        ({"context": 1}, "context must be a list"),
        ({"context": [{"text": [1]}, {"words": [1]}]}, r"context\[1\] must be an object"),
        ({"context": [{"text": ["a"]}]}, r"context\[0\] must be an object"),
        ({"context": [{"text": [1], "start": "2"}]}, r"context\[0\]\.start must be an integer"),
        ({"context": [{"paths": [[], [{}]]}]}, r"context\[0\]\.paths\[1\]\[0\] must be"),
        ({"context": [], "rule": "knot"}, "rule must be one of stitch, reserve, linear"),
        ({"context": [], "path_offset": 0.5}, "path_offset must be an integer"),
        (
            {"context": [{"paths": [[]], "closed": False}, {"text": [1]}]},
            r"context\[0\]\.closed must be true: nothing follows an open block",
        ),
        (
            {"context": [{"paths": [[{"paths": [], "closed": False}]]}]},
            r"context\[0\]\.paths\[0\]\[0\]\.closed must be true",
        ),
    ],
)
def test_an_ill_formed_tree_is_refused_with_its_place(
    tmp_path: Path, content: object, where: str
) -> None:
    with pytest.raises(InvalidRequest, match=where):
        load(tree(tmp_path, content), 1, "multiverse")


def test_a_row_that_is_not_there_and_a_file_that_is_not_json_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"40 rows: --row must be 1 to 40"):
        load(DATA / "layout_stitch.json", 41, "multiverse")
    with pytest.raises(InvalidRequest, match="--row must be 1 to 1"):
        load(tree(tmp_path, {"context": []}), 0, "multiverse")
    path = tmp_path / "tree.json"
    path.write_text("{", "utf-8")
    with pytest.raises(InvalidRequest, match=r"tree\.json: not JSON"):
        load(path, 1, "multiverse")
