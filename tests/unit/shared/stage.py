"""Answers of scripted models, written and read as text.

In a script every tag is a control token. In what is read back, «» stand around what the
system wrote, and a block is the list of its paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from multiverse_shared.dialect import load_dialect
from multiverse_shared.grammar import Grammar, Ids
from multiverse_shared.interpreter import Interpreter
from multiverse_shared.limits import Limits
from multiverse_shared.tokenizer import TextTokenizer
from multiverse_shared.tree import Context, Text
from tests.unit.shared import vocabularies
from tests.unit.shared.fake_engine import Record, Schedule, run

LONG_TEMPLATES = {
    "after_plan": "\n",
    "path_header": "<Path>{label}:",
    "path_tail": "\n",
    "join_header": "<Conclusion>\n",
    "path_offset": -1,
    "join_offset": -1,
}


@dataclass(frozen=True, slots=True)
class Script:
    """A model that writes given ids in each path, and `end` behind them and for banned ones."""

    paths: Mapping[str, Ids]
    end: int

    def __call__(self, path: str, index: int, last: int, banned: Ids) -> int:
        ids = self.paths.get(path, ())
        token = ids[index] if index < len(ids) else self.end
        return self.end if token in banned else token


@dataclass(frozen=True, slots=True)
class Stage:
    """A dialect, and a tokenizer with one token per character."""

    grammar: Grammar
    tokenizer: TextTokenizer
    eos: int

    @classmethod
    def build(cls, **changes: Any) -> Stage:
        """The dialect with some of its fields changed."""
        return cls.over(vocabularies.characters(), **changes)

    @classmethod
    def over(cls, vocabulary: str, **changes: Any) -> Stage:
        """The same over another vocabulary."""
        tokenizer = TextTokenizer(vocabulary)
        eos = tokenizer.token_id(vocabularies.EOS)
        assert eos is not None
        dialect = replace(load_dialect("multiverse"), **changes)
        return cls(Grammar.bind(dialect, tokenizer), tokenizer, eos)

    def ids(self, text: str) -> Ids:
        return tuple(self.tokenizer.encode_trusted(text))

    def interpreter(self, limits: Limits | None = None, *, may_fork: bool = True) -> Interpreter:
        prompt = (Text(self.ids("Q?")),)
        return Interpreter(self.grammar, limits or Limits(), prompt, [self.eos], may_fork=may_fork)

    def perform(
        self,
        paths: Mapping[str, str],
        limits: Limits | None = None,
        *,
        may_fork: bool = True,
        end: str = vocabularies.EOS,
        schedule: Schedule | None = None,
    ) -> Record:
        """The answer of a model that writes these texts, and then one token for ever."""
        script = Script({path: self.ids(text) for path, text in paths.items()}, *self.ids(end))
        return run(self.interpreter(limits, may_fork=may_fork), script, schedule)

    def told(self, context: Context) -> list[Any]:
        """A context as text."""
        out: list[Any] = []
        for item in context:
            if isinstance(item, Text):
                text = self.tokenizer.decode(item.ids)
                out += [f"«{text}»" if item.written else text] if text else []
            else:
                out.append([self.told(path) for path in item.paths])
        return out

    def answer(self, record: Record) -> list[Any]:
        """The answer as text, the prompt left out."""
        return self.told(record.context[1:])
