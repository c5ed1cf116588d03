"""What people see of a Markdown text, as plain text: for whoever decides on it before an adapter shows it.

It is read by the same reader as adapters use, so nothing comes out of a rendering that was not here. A platform, or a
reader of a file, may take some signs for formatting once more, and a link may be shown with its address or without;
each is a view of its own. How the blocks of a text are laid out is not told: one stands under the other.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from channels.leaves import Leaf, Span, clean, labelled, told
from channels.markdown import parsed

# A text without any of these is shown as it is written: no signs, bullets, numbers of items, indents, nor gaps.
_MARKED: Final = re.compile(
    r"[\\`*_~<>\[\]!&#|=]|^[ \t]|[ \t]$|^(?:[-+]|\d+[.)])(?:[ \t]|$)|^-+$|[^\S\n]{3}|\n{3}", re.MULTILINE
)
# What vanishes where a chat reads its own formatting, or a program shows a file: signs, tags, comments, footnotes; and
# what lays out a table.
_VANISHING: Final = re.compile(
    r"<!--.{0,300}?-->|</?[A-Za-z][^<>]{0,300}>|\[\^[^\]\n]{0,60}\]|[*~`]+|(?<![^\W_])_+|_+(?![^\W_])|^[-+]{3,}\n",
    re.DOTALL | re.MULTILINE,
)
_WIDE: Final = re.compile(r"[^\S\n]{2,}")


def views(markdown: str) -> tuple[str, ...]:
    """Return what may be seen of a text beside the text as it is written: nothing where that is all.

    First the text with the labels of links alone, then with their addresses, then what is left once formatting that
    other readers may know has vanished.
    """
    if not _MARKED.search(clean(markdown)):
        return ()
    leaves = parsed(markdown)
    plain = "\n".join((_text(leaves), *(leaf.language for leaf in leaves if leaf.language)))
    made = [plain]
    if links := list(dict.fromkeys(span.link for leaf in leaves for span in leaf.spans if span.link)):
        decoded = [unquote(link) for link in links if unquote(link) != link]
        made.append("\n".join((_text(leaves, links=True), *decoded)))
    made.append(_WIDE.sub(" ", _VANISHING.sub("", plain)))
    return tuple(view for view in dict.fromkeys(made) if view != markdown)


def _text(leaves: Iterable[Leaf], *, links: bool = False) -> str:
    return "\n".join(
        "".join(span.text for span in (_told(leaf.spans) if links else leaf.spans)) for leaf in leaves if leaf.spans
    )


def _told(spans: Iterable[Span]) -> Iterator[Span]:
    for group in labelled(spans):
        yield from told(*group)
