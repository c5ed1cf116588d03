"""What a built site would load from elsewhere: scripts, styles, fonts, pictures. A reader's browser asks only the site.

Links that a reader clicks may lead elsewhere. Everything else in a page must be relative, and so must what styles load.
Scripts may name no address, but for the names of XML's vocabularies, which nothing loads.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

_ELSEWHERE: Final = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
_LOADED_BY_STYLE: Final = re.compile(r"(?:url\(\s*|@import\s+)['\"]?((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)
_NAMED_BY_SCRIPT: Final = re.compile(r"['\"`]((?:https?:|wss?:)//(?!www\.w3\.org/)[^'\"`\s]+)", re.IGNORECASE)
_ATTRIBUTES: Final = frozenset({"action", "content", "data", "href", "poster", "ping", "src", "srcset", "xlink:href"})


class _Page(HTMLParser):
    """Collects the addresses that a browser asks for by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        for name, value in attrs:
            clicked = tag == "a" and name == "href"
            if name in _ATTRIBUTES and not clicked and _ELSEWHERE.search(value or ""):
                self.found.append(f"<{tag} {name}={value}>")
            if name == "style":
                self.found += _LOADED_BY_STYLE.findall(value or "")

    def handle_data(self, data: str) -> None:
        if self.inside in {"script", "style"}:
            self.found += _of_text(data, self.inside)


def _of_text(text: str, kind: str) -> list[str]:
    return (_LOADED_BY_STYLE if kind == "style" else _NAMED_BY_SCRIPT).findall(text)


def foreign(site: Path) -> Iterator[str]:
    """Yield one line for each thing that a page, a style or a script of this folder would load from elsewhere.

    Args:
        site: the folder that the site was built into.

    Raises:
        OSError: a file cannot be read.
    """
    for path in sorted(site.rglob("*")):
        name = path.relative_to(site)
        if path.suffix in {".html", ".svg"}:
            page = _Page()
            page.feed(path.read_text("utf-8"))
            yield from (f"{name}: {found}" for found in page.found)
        elif path.suffix in {".css", ".js"}:
            kind = "style" if path.suffix == ".css" else "script"
            yield from (f"{name}: {found}" for found in _of_text(path.read_text("utf-8"), kind))
