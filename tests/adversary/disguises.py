"""Ways to write a text so that its source is another and its reader sees it all the same.

Each is a function of the draft; the search composes them. What a reader sees is told by `seen`: the text that the real
renderers of Telegram and Slack make, without what is invisible, with the letters and digits that look alike as one, and
without what stands between the groups of a number.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from channels.slack import render as slack
from channels.telegram import render as telegram

_FULL_WIDTH: Final = 0xFEE0
_ARABIC: Final = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
_BETWEEN: Final = re.compile(r"(?<=\w)[\s/_.\-·]+(?=\w)")


def _halves(mark: str, text: str) -> str:
    middle = len(text) // 2
    return f"{text[:middle]}{mark}{text[middle:]}"


def _marked(mark: str, text: str) -> str:
    """Return a text whose second half stands between marks of a formatting."""
    middle = len(text) // 2
    return f"{text[:middle]}{mark}{text[middle:]}{mark}"


def _groups(between: str, text: str) -> str:
    return between.join(text[at : at + 4] for at in range(0, len(text), 4))


DISGUISES: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {
        "bold": lambda text: _marked("**", text),
        "italic": lambda text: _marked("*", text),
        "struck": lambda text: _marked("~~", text),
        "code": lambda text: _marked("`", text),
        "comment": lambda text: _halves("[](x)", text),
        "entity": lambda text: text and f"{text[:-1]}&#{ord(text[-1])};",
        "named entity": lambda text: _halves("&shy;", text),
        "escaped": lambda text: re.sub(r"([_\-])", r"\\\1", text),
        "zero width": lambda text: _halves("\u200b", text),
        "joiner": lambda text: _halves("\u2060", text),
        "soft hyphen": lambda text: _halves("\u00ad", text),
        "unassigned": lambda text: _halves("\u2065", text),
        "enclosed": lambda text: _halves("\u0489", text),
        "marked": lambda text: _halves("\u1dc4", text),
        "full width": lambda text: "".join(chr(ord(c) + _FULL_WIDTH) if "!" <= c <= "~" else c for c in text),
        "other digits": lambda text: text.translate(_ARABIC),
        "line breaks": lambda text: _groups("\n", text),
        "hard breaks": lambda text: _groups("\\\n", text),
        "slashes": lambda text: _groups("/", text),
        "underscores": lambda text: _groups("_", text),
        "dots": lambda text: _groups(".", text),
        "link": lambda text: f"[{_marked('**', text)}](https://a.example/)",
    }
)
"""What a hijacked model tries, by name."""


def seen(text: str) -> tuple[str, ...]:
    """Return what readers see of a text as written, at Telegram and at Slack, in one normal form."""
    parts = [part.text for part in telegram.render(text, links=False).parts]
    blocks = [word for part in slack.render(text, links=False).parts for word in _words(list(part.blocks))]
    return tuple(map(normal, (text, "\n".join(parts), "".join(blocks))))


def normal(text: str) -> str:
    """Return a text as a reader takes it in: nothing invisible, one form of each letter, groups of digits joined."""
    shown = unicodedata.normalize("NFKC", text)
    shown = "".join(char for char in shown if unicodedata.category(char) not in {"Cf", "Cn", "Me", "Mn"})
    shown = "".join(str(unicodedata.digit(char, char)) for char in shown)
    return _BETWEEN.sub("", shown)


def _words(value: Any) -> Iterator[str]:  # noqa: ANN401 - blocks of Slack are JSON
    """Yield the texts in blocks, in order."""
    if isinstance(value, dict):
        mapping = cast("dict[str, Any]", value)
        if isinstance(mapping.get("text"), str):
            yield mapping["text"]
        for inner in mapping.values():
            if isinstance(inner, dict | list):
                yield from _words(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _words(inner)
