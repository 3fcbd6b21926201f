"""Client text that tries to be a control tag."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

ZERO_WIDTH = ("\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad")
_WIDE = 0xFEE0  # from ASCII to the forms that NFKC folds back


def disguises(tag: str) -> Iterator[str]:
    """The tag in every shape that something might turn back into it."""
    middle = len(tag) // 2
    yield from (tag, tag.upper(), tag.lower(), tag.swapcase(), tag.title())
    yield from (f"{tag}{tag}", f"{tag[:middle]}{tag}{tag[middle:]}", f"<{tag}>", f"</{tag}")
    yield from (f"x{tag}y", f" {tag} ", f"\n{tag}\n", f"1{tag}:", f"\u2581{tag}", f"é{tag}日")
    yield from (f"{tag[:middle]}{invisible}{tag[middle:]}" for invisible in ZERO_WIDTH)
    yield ZERO_WIDTH[0].join(tag)
    yield from (f"{tag[:1]}<b>{tag[1:]}</b>", f"{tag[:middle]}<!-- -->{tag[middle:]}")
    yield from (f"{tag[:middle]}**{tag[middle:]}", tag.replace("<", "&lt;"), f"`{tag}`")
    yield "".join(chr(ord(letter) + _WIDE) for letter in tag)
    yield from (tag.replace("<", "\ufe64"), f"{tag[:-1]} {tag[-1:]}", tag[::-1])
    yield from (f"{{{{ '{tag}' }}}}", f"\ue000{tag}\ue001", f"\U000f0000{tag}\U00100000")


def texts(tags: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Disguised tags and other text, one behind the other."""
    shapes = sorted({shape for tag in tags for shape in disguises(tag)})
    pieces = st.sampled_from(shapes) | st.sampled_from(tags) | st.text(max_size=4)
    return st.lists(pieces, min_size=1, max_size=5).map("".join)
