"""Schemas of what a teacher answers at each stage.

Only shapes; whether an answer makes sense is for the stages to say.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Root of the answers: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Label(StrEnum):
    """How the results of parallel paths go on."""

    COLLECTIVE = "collective"  # all of them are needed
    SELECTIVE = "selective"  # one of them decides, the others were tried


class Step(Answer):
    summary: str = Field(min_length=1, description="one sentence: what this step does")
    substeps: list[str] = Field(
        default_factory=list, description="one sentence for each substep; empty if there are none"
    )


class Summary(Answer):
    """Stage 1: main steps in order; step i has the id `i`, its substep j the id `i.j`."""

    steps: list[Step] = Field(min_length=1)


class Dependency(Answer):
    step: str = Field(description="id of the step that needs others")
    needs: list[str] = Field(description="ids of the steps whose results it uses")


class ParallelGroup(Answer):
    steps: list[str] = Field(description="ids of adjacent steps with one parent, at least two")
    label: Label
    reason: str = Field(description="why none of them needs another")


class Groups(Answer):
    """Stage 2: the dependency graph, and the groups that it allows."""

    dependencies: list[Dependency] = Field(default_factory=list)
    groups: list[ParallelGroup] = Field(default_factory=list)


class Part(Answer):
    step: str = Field(description="id of the step that these sentences belong to")
    first: int = Field(ge=1, description="number of its first sentence")
    last: int = Field(ge=1, description="number of its last sentence")


class Refill(Answer):
    """Stage 4: which sentences make up each step, in the order of the text."""

    parts: list[Part]


class Rewrite(Answer):
    """Stage 5, of one group: the plan, the paths to stand alone, and what follows from them."""

    outlines: list[str] = Field(description="for each path what it does, not how; no results")
    paths: list[str] = Field(description="each path rewritten to be read alone")
    conclusion: str = Field(description="what the paths found, in a sentence or two")
