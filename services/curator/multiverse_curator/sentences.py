"""Cuts reasoning into sentences without losing a character.

`"".join(split(text)) == text` always. Formulas and code are never cut; knows no languages beyond
their full stops.
"""

from __future__ import annotations

import re

LONGEST_SPAN = 4000  # characters of a formula or a code block that is kept whole

_PIECE = re.compile(
    rf"""
      ```.{{0,{LONGEST_SPAN}}}?```               # code
    | \$\$.{{1,{LONGEST_SPAN}}}?\$\$             # formulas
    | \\\[.{{1,{LONGEST_SPAN}}}?\\\]
    | \\\(.{{1,300}}?\\\)
    | \$[^$\n]{{1,300}}\$
    | (?P<end>
          [.!?]+["')\]*]*(?=\s)\s*
        | [。！？；]+["”’）]*\s*
        | ;\s*
        | \n\s*
      )
    | [^`$\\.!?。！？；;\n]+                      # plain text
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


def split(text: str) -> list[str]:
    """Sentences in order, each with the white space behind it."""
    sentences: list[str] = []
    begun = 0
    for piece in _PIECE.finditer(text):
        if piece.lastgroup == "end" and text[begun : piece.end()].strip():
            sentences.append(text[begun : piece.end()])
            begun = piece.end()
    if begun < len(text):
        sentences.append(text[begun:])
    return sentences
