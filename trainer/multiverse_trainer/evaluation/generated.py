"""The generated tasks as questions. A seed of its own keeps them out of training."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from multiverse_trainer.evaluation.question import AnswerForm, Question
from multiverse_trainer.tiny.tasks import Family, Level, Task, make_task

SEED = 20261129
LOOKED_AT = 200  # tasks drawn for each that is wanted, at most


def generated(
    count: int,
    seed: int = SEED,
    families: Collection[str] = (),
    but: Collection[str] = (),
    level: str = Level.FULL,
) -> list[Question]:
    """`count` different tasks of these families (all if none), in the mixture of training.

    `but` are families left out: those that a model was trained on, when the others are asked.
    ValueError for an unknown family or level, or when there are not that many different tasks.
    """
    levels = [known.value for known in Level]
    if level not in levels:
        raise ValueError(f"no level {level!r}; there are {', '.join(levels)}")
    known = {family.value for family in Family}
    if unknown := sorted({*families, *but} - known):
        raise ValueError(f"no task family {unknown[0]!r}; there are {', '.join(sorted(known))}")
    wanted = {name for name in families or known if name not in but}
    if not wanted:
        raise ValueError("no task family is left to ask")
    rng = Random(seed)
    found: dict[str, Task] = {}
    for _ in range(LOOKED_AT * count):
        if len(found) == count:
            break
        task = make_task(rng, level=Level(level))
        if task.family.value in wanted:
            found.setdefault(task.prompt, task)
    if len(found) < count:
        raise ValueError(f"there are only {len(found)} different tasks of {sorted(wanted)}")
    return [
        Question(f"{seed}-{n}", task.family.value, task.prompt, task.answer, AnswerForm.HASH)
        for n, task in enumerate(found.values())
    ]
