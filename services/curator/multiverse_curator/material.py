"""What the teacher is shown at each stage, and what it is told to do with it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from multiverse_curator.answers import Label, Summary


class Material(BaseModel):
    model_config = ConfigDict(frozen=True)


class SummaryMaterial(Material):
    question: str
    sentences: list[str]  # numbered from 1


class GroupsMaterial(SummaryMaterial):
    steps: Summary


class RefillMaterial(SummaryMaterial):
    steps: dict[str, str]  # summaries by id, in order
    leaves: list[str]  # ids that bear text


class RewriteMaterial(Material):
    question: str
    before: str  # the end of what stands before the group
    label: Label
    paths: list[str]  # a group inside a path is a marker


BEFORE = 2000  # characters of what stands before a group

SUMMARY = """\
You are given a question and someone's reasoning, cut into numbered sentences.
Describe the whole course of the reasoning as a list of main steps, in the order in which they
happen: reading the question, each idea that is tried (the ones that fail too), each case, each
check, each correction, and the final answer. Leave nothing out and add nothing.
Where a step falls into parts that are of some length themselves, list them as its substeps.
There are no further levels. One sentence each. A step that treats several cases or several
alternatives should have one substep per case or alternative."""

GROUPS = """\
You are given a question, its reasoning in numbered sentences, and a summary of its steps. Main
step i has the id "i", its j-th substep the id "i.j".
First write down the dependencies: which step uses something that another step found. A step that
only uses the question, or what stood before both, does not depend on the other. The branches of
an if/else, or the cases of a case analysis, do not depend on each other.
Then name groups of steps that could be worked on at the same time by people who cannot talk to
each other: adjacent steps with the same parent, at least two, none of which depends on another
one of the group, directly or through other steps. Groups do not overlap. Give the reason, and a
label: "collective" when the results of all of them are needed, "selective" when they are
alternatives of which one is used. If there are no such steps, give no groups."""

REFILL = """\
You are given a question, its reasoning in numbered sentences, and the steps that the reasoning
takes. `leaves` are the ids of the steps that sentences belong to; a step that has substeps owns
the sentences before its first substep.
Say for each step in `leaves` from which sentence to which it reaches. Every sentence belongs to
exactly one step, the steps follow each other in the order of the text, and a step may be left
out only if it has no sentence."""

REWRITE = """\
You are given a question, the end of what was reasoned so far (`before`), and `paths`: pieces of
reasoning that will be written at the same time by people who see the question and `before` but
not each other.
Rewrite each path so that it can be read alone. Keep its words, its numbers and its formulas as
far as possible; change only what refers to another path ("similarly", "as in the first case",
"the other one") and say in full what was meant. Use no number that only another path computes.
Do not shorten, and add no thought. A marker like [[fork 1]] stands for a part that is treated
elsewhere: keep it where it is.
Write for each path an outline: one short line that says what will be done in it, not how, and
without its result. Then write a conclusion: what the paths found together, in a sentence or two,
with nothing that is not in them. If the label is "selective", say which path is followed."""
