"""One path of an answer while it grows: what it holds and what it may still spend.

Knows no rules (see `interpreter`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.limits import Budget
from multiverse_shared.machine import Machine, Verdict
from multiverse_shared.scanner import TagScanner
from multiverse_shared.tree import Block, Context, Item, Text


@dataclass(slots=True)
class _Run:
    ids: list[int]
    written: bool


@dataclass(slots=True)
class Path:
    """Mutable; owned by one interpreter."""

    id: str  # "0", "0.1", "0.1.2": numbered on over all blocks of the parent
    parent: Path | None
    depth: int
    machine: Machine
    scanner: TagScanner
    budget: Budget  # what is left
    allotted: Budget  # what it began with
    items: list[_Run | Block] = field(default_factory=list)
    children: list[Path] = field(default_factory=list)  # of the open block
    forked: int = 0  # paths it has ever had
    branches: int = 0  # engine branches it has had
    sampled: int = 0
    verdict: Verdict | None = None  # what the last lexeme of the running branch was
    ended: bool = False

    @classmethod
    def root(cls, grammar: Grammar, budget: Budget) -> Path:
        machine = Machine(grammar, is_path=False)
        return cls("0", None, 0, machine, TagScanner(grammar), budget, budget)

    def child(self, budget: Budget) -> Path:
        """The next path of this one's open block."""
        self.forked += 1
        grammar = self.machine.grammar
        machine, scanner = Machine(grammar, is_path=True), TagScanner(grammar)
        name = f"{self.id}.{self.forked}"
        return Path(name, self, self.depth + 1, machine, scanner, budget, budget)

    @property
    def branch(self) -> str:
        """Id of the engine branch that runs, or ran last, for this path."""
        return f"{self.id}#{self.branches}"

    def next_branch(self) -> str:
        self.branches += 1
        return self.branch

    @property
    def spent(self) -> Budget:
        """What was used of the allotment, descendants included."""
        return self.allotted.spend(self.budget.total, self.budget.critical, self.budget.blocks)

    def append(self, ids: Ids, *, written: bool) -> None:
        """Add tokens and pay for them."""
        self.budget = self.budget.spend(len(ids))
        last = self.items[-1] if self.items else None
        if isinstance(last, _Run) and last.written == written:
            last.ids.extend(ids)
        else:
            self.items.append(_Run(list(ids), written))

    def items_so_far(self) -> Context:
        """Its own tokens and closed blocks."""
        return tuple(
            item if isinstance(item, Block) else Text(tuple(item.ids), item.written)
            for item in self.items
        )

    def context(self) -> Context:
        """The same with the open block, if there is one."""
        items: Context = self.items_so_far()
        if not self.children:
            return items
        dialect = self.machine.grammar.dialect
        paths = tuple(child.context() for child in self.children)
        block: Item = Block(paths, dialect.rule, False, dialect.path_offset, dialect.join_offset)
        return (*items, block)
