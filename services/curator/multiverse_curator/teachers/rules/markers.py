"""How a sentence shows that it opens one of several parallel parts.

A marker has a kind, and an ordinal where the kind counts. Only neighbours of one kind, with
ordinals that go on, make a run. Knows words of English and Chinese reasoning, and no meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from multiverse_curator.answers import Label


@dataclass(frozen=True, slots=True)
class Kind:
    """`spans`: a part may go on over many sentences, up to the next marker."""

    name: str
    pattern: re.Pattern[str]
    label: Label = Label.COLLECTIVE
    spans: bool = True


@dataclass(frozen=True, slots=True)
class Marker:
    kind: Kind
    ordinal: int | None  # None: the kind does not count
    text: str


_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7, "viii": 8}
_CHINESE = {word: number for number, word in enumerate("一二三四五六七八九十", 1)}
_WORDS = {word: n for n, word in enumerate(("first", "second", "third", "fourth", "fifth"), 1)}
_ORDINAL = r"(?P<n>\d{1,2}|[IVX]{1,4}|[A-H]|[一二三四五六七八九十])"
_LEAD = r"\s*(?:[-*•]\s+|#{1,5}\s+)?\**(?:(?:Now|Next|Then|Finally|First|And|So),?\s+)?"


def _kind(name: str, pattern: str, label: Label = Label.COLLECTIVE, *, spans: bool = True) -> Kind:
    return Kind(name, re.compile(pattern, re.IGNORECASE), label, spans)


KINDS = (
    _kind("case", rf"{_LEAD}(?:Sub)?(?:Case|Scenario|Possibility|Situation)\s*#?{_ORDINAL}\b"),
    _kind("case", rf"\s*\**(?:情况|情形|第)\s*{_ORDINAL}\s*(?:种(?:情况|情形|可能))?\s*[：:，,、]"),
    _kind(
        "method",
        rf"{_LEAD}(?:Method|Approach|Way|Strategy|Attempt)\s*#?{_ORDINAL}\b",
        Label.SELECTIVE,
    ),
    _kind("method", rf"\s*\**(?:方法|解法|思路)\s*{_ORDINAL}\s*[：:，,、]", Label.SELECTIVE),
    _kind("option", rf"{_LEAD}(?:Option|Choice|Candidate)\s*#?\(?{_ORDINAL}\b", Label.SELECTIVE),
    _kind(
        "ordinal",
        rf"{_LEAD}(?:the\s+)?(?P<n>first|second|third|fourth|fifth)\s+"
        r"(?:term|equation|case|sum|factor|integral|part|condition|number|expression|root|item)\b",
        spans=False,
    ),
    _kind(
        "branch",
        r"\s*(?:If|When|Suppose|Assume)\s+(?!we\b|you\b|I\b|so\b|that\b|this\b)[^,.\n]{1,60},",
    ),
    _kind("branch", r"\s*(?:若|如果|当)[^，。\n]{1,30}[，,]"),
    _kind(
        "value", r"\s*(?:For|At|With|Let's try|Try|Trying|Take)\s+\\?[($]*\s*\w{1,3}\s*=\s*-?\d+"
    ),
    _kind("value", r"\s*(?:对于|取|令)\s*\w{1,3}\s*=\s*-?\d+"),
    _kind("letter", r"\s*\(?(?P<n>[a-zA-Z])(?:\)|:)\s?(?=\S)", spans=False),
    _kind("roman", r"\s*\((?P<n>i{1,3}|iv|v|vi{0,3})\)\s", spans=False),
    _kind(
        "alternative",
        r"\s*(?:Alternatively|Another (?:way|approach|method|idea)|A different approach)\b",
        Label.SELECTIVE,
    ),
    _kind("alternative", r"\s*(?:另一种(?:方法|思路|做法)|或者[，,]|换一种)", Label.SELECTIVE),
)
ALTERNATIVE = "alternative"

SOFT = re.compile(
    r"(?:(?<=^)|(?<=[.!?。！？;；]\s)|(?<=\n)|(?<=[。！？；]))(?:Similarly|Likewise|Analogously|"
    r"In the same way|同理|类似地|同样地)[，,]\s*",
    re.IGNORECASE,
)
CONCLUDES = re.compile(
    r"\s*\**(?:(?:So|Thus|Therefore|Hence|Overall|In (?:total|all|conclusion|summary)|Adding|"
    r"Combining|Summing|Putting|Altogether|Finally|Wait|Now that)\b|"
    r"综上|所以|因此|总共|合计|总之|故|最后)",
    re.IGNORECASE,
)
ASIDE = re.compile(
    r"\s*(?:Wait|But|Hmm|However|So|Thus|Therefore|Hence|Let me (?:check|verify|see|recall|think)|"
    r"Okay|Yes|No\b|Actually|等等|但是|不过|所以|因此)",
    re.IGNORECASE,
)


def marker_of(sentence: str) -> Marker | None:
    """The marker that the sentence begins with, if it does."""
    for kind in KINDS:
        if match := kind.pattern.match(sentence):
            counted = match.groupdict().get("n")
            ordinal = _number(counted, kind) if counted else None
            return Marker(kind, ordinal, match.group())
    return None


def follows(marker: Marker, last: Marker) -> bool:
    """Whether the one may open the part after the one that the other opened."""
    if marker.kind.name != last.kind.name:
        return False
    if marker.ordinal is None or last.ordinal is None:
        return marker.ordinal is last.ordinal
    return marker.ordinal == last.ordinal + 1


def template(sentence: str) -> str:
    """The sentence with its numbers blotted out: repeated computations look alike."""
    return re.sub(r"-?\d+(?:\.\d+)?", "#", sentence.strip())


def _number(word: str, kind: Kind) -> int | None:
    low = word.lower()
    if word.isdigit():
        return int(word) if word.isascii() else None
    if kind.name != "letter" and low in _ROMAN and word not in "CD":
        return _ROMAN[low]
    if low in _WORDS:
        return _WORDS[low]
    return _CHINESE.get(word) or (ord(word) if len(word) == 1 else None)
