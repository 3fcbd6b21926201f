"""Which questions are asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiverse_trainer.evaluation.question import Question


def questions_of(
    name: str,
    data: Path | None,
    count: int,
    seed: int | None,
    families: list[str],
    but: list[str],
    level: str | None = None,
) -> list[Question]:
    """Of a benchmark, of a file, or generated. ValueError names what is wrong with them."""
    from multiverse_trainer.evaluation.benchmarks import SOURCES, benchmark, own_questions
    from multiverse_trainer.evaluation.generated import SEED, generated

    if name == "generated":
        return generated(count, SEED if seed is None else seed, families, but, level or "full")
    if families or but or level or seed is not None:
        raise ValueError("--family, --not-family, --level and --task-seed are for generated tasks")
    if name in SOURCES:
        return benchmark(name, data)
    if data:
        raise ValueError(f"--data is for {', '.join(SOURCES)}")
    if not Path(name).is_file():
        raise ValueError(f"{name!r} is neither a file nor generated, {', '.join(SOURCES)}")
    return own_questions(Path(name))
