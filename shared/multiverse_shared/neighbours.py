"""What commonly stands before or after a tag: 200 strings of many kinds."""

from __future__ import annotations

_WORDS = (
    *("the", "answer", "Path", "Goal", "step", "plan", "Outline", "Conclusion", "So", "I"),
    *(" the", " is", " Parallel", " Therefore", " and", " x", " Note", " 'tis", " don't"),
    *("The ", "end ", "paths ", "Let us think. ", "First, ", "e.g. "),
    *("thinking in parallel", "two words", "UPPER CASE", "camelCase", "snake_case", "kebab-case"),
    *("naïve", "Straße", "façade", "İstanbul", "e\u0301", "ﬁne", "Ａｂｃ"),
)
_NUMBERS = (
    *("0", "1", "2", "7", "10", "42", "100", "2026", "3.14", "1,000", "1:", "2:", "1.", "2.1:"),
    *("1) ", "(a)", "1: ", " 1", " 12", "-5", "1/2", "5%", "1e-3", "²", "½"),
)
_NEWLINES = (
    *("\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", " \n", "\n ", "\n\n    ", "\t", "\t\t", "\n\t"),
    *(".\n", ":\n", ".\n\n", ",\n", ";\n", ")\n", ">\n", "\n>", "\n- ", "\n* ", "\n1. "),
)
_SPACES = (
    " ",
    "  ",
    "    ",
    "        ",
    "\u00a0",
    "\u3000",
    "\u2009",
    "\u200b",
    "\ufeff",
    "\u2028",
)
_PUNCTUATION = (
    *(".", ",", ":", ";", "!", "?", "-", "--", "—", "…", "...", "'", '"', "“", "”", "`"),
    *("(", ")", "[", "]", "{", "}", "()", "),", ").", '",', "?!", "*", "**", "_", "^", "~"),
    *("@", "#", "&", "|", "\\", "/", "//", "=", "==", "+", "%", "$", "$$", "•", "·", "§", "©"),
)
_MARKUP = (
    *("<", ">", "</", "/>", "<<", ">>", "><", "></", "< ", " >", "<b>", "</b>", "&lt;"),
    *("<|", "|>", "<!--", "-->", "->", "=>", "<=", ">=", "[/INST]", "```", "```python\n"),
)
_CODE = (
    *("def f(x):", "return", "if (a<b)", "x = 1;", "a->b", "std::vector<int>", "print('hi')"),
    *("</div>", "import os\n", "for i in range(3):\n    ", "\\frac{1}{2}", "\\boxed{42}", "$x^2$"),
)
_SCRIPTS = (
    *("你好", "。", "，", "日本語", "テキスト", "한국어", "Ελληνικά", "Русский"),
    *("العربية", "עברית", "हिन्दी", "ไทย", "👍", "👍🏽", "👩‍👩‍👧", "🇩🇪", "∑", "≤", "π"),
)

NEIGHBOURS: tuple[str, ...] = (
    *_WORDS,
    *_NUMBERS,
    *_NEWLINES,
    *_SPACES,
    *_PUNCTUATION,
    *_MARKUP,
    *_CODE,
    *_SCRIPTS,
)
