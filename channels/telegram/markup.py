"""Markdown as models write it, read into a page of styled text.

Read with markdown-it-py: it is pure Python with one small dependency, which `rich` brings along already; it is typed,
and it hands over tokens, so that every link passes our hands before it is one. The other candidate,
telegramify-markdown 1.4, brings a compiled parser, makes links of `tg://` and `javascript:` as they come, and took
twice as long over a table of 500 columns and 500 short rows (4.3 s against 1.9 s, where both fill up the cells). That
table is the one hostile input of forty on which markdown-it-py is not linear; it is not read as a table here.

Nothing that is written may be lost on the way. So HTML and the definition of a reference are text, the title of a link
is written out, and where letters are missing in the end (a row with more cells than the head of its table, lists nested
more deeply than the parser follows) the source is shown as it was written.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Final
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len

from channels.telegram.flow import CODE, Page, Run, Style

# Also multiplies what an unclosed bracket costs: at 40, 40,000 characters of `![` took six times as long.
_NESTING: Final = 20
_CELLS: Final = 8192
_WIDEST: Final = 40
_RULE: Final = "———"
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9+#._-]{1,32}")
# What Telegram takes for the address of a link; it refuses the whole message for one that it does not.
_HOST: Final = re.compile(r"(?:[a-z0-9-]+\.)+(?:[a-z]{2,}|xn--[a-z0-9-]+)|(?:\d{1,3}\.){3}\d{1,3}")
_LONGEST_ADDRESS: Final = 2048
_NUMBERING: Final = re.compile(r"^[ \t>*+-]*\d{1,9}[.)]", re.MULTILINE)
_BOLD: Final = Style("bold")
_STYLES: Final[Mapping[str, Style]] = {"strong": _BOLD, "em": Style("italic"), "s": Style("strikethrough")}


def read(source: str, *, links: bool) -> list[Run]:
    """Return the text of a Markdown source, with its styles.

    Without `links`, an address is written out behind its label instead of being put under it.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING}).enable("strikethrough")
    parser.disable("reference")
    if _table_is_small(source):
        parser.enable("table")
    reader = _Reader(source.split("\n"), links=links)
    for token in parser.parse(source):
        reader.block(token)
    runs = reader.page.runs
    return [Run(source)] if _loses(source, "".join(_seen(runs))) else runs


def can_be_linked(url: str) -> bool:
    """Tell whether an address may be put under a text: of the web alone, and such as Telegram accepts."""
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        return False
    plain = "@" not in parts.netloc and url.isascii() and len(url) <= _LONGEST_ADDRESS
    return parts.scheme in {"http", "https"} and bool(_HOST.fullmatch(parts.hostname or "")) and port_is_valid and plain


def _seen(runs: Sequence[Run]) -> Iterator[str]:
    before: tuple[Style, ...] = ()
    for run in runs:
        yield run.text
        for style in run.styles:
            if style not in before:
                yield style.url + style.language
        before = run.styles


def _loses(written: str, seen: str) -> bool:
    """Tell whether letters, digits or other signs that Markdown does not use were written and are not seen."""
    before = Counter(unescape(_NUMBERING.sub("", written)))
    after = Counter(seen + unquote(seen))
    return any(
        count > after[character] and (character.isalnum() or (not character.isascii() and character.isprintable()))
        for character, count in before.items()
    )


def _table_is_small(source: str) -> bool:
    # Every row is filled up to the width of the head, so the work is their product. Counted from above, before the
    # parser does it.
    lines = source.split("\n")
    return len(lines) * (max(line.count("|") for line in lines) + 1) <= _CELLS


class _Reader:
    """Walks the tokens of a document. `lines` are its source, `links` is as for `read`."""

    def __init__(self, lines: Sequence[str], *, links: bool) -> None:
        self.page = Page()
        self._lines = lines
        self._links = links
        self._rows: list[list[str]] = []
        self._cells = False
        self._written = ""

    def block(self, token: Token) -> None:
        """Write one token of the document."""
        kind, _, end = token.type.rpartition("_")
        match kind or token.type, end:
            case ("paragraph", _):
                self.page.gap(1 if token.hidden else 2)
            case ("heading", _):
                self.page.gap(2)
                self.page.open[:] = [_BOLD] if end == "open" else []
            case ("bullet_list" | "ordered_list", "open"):
                self.page.enter_list(int(token.attrs.get("start", 1)) if kind == "ordered_list" else None)
            case ("bullet_list" | "ordered_list", _):
                self.page.leave_list()
            case ("list_item", "open"):
                self.page.enter_item()
            case ("list_item", _):
                self.page.leave_item()
            case ("blockquote", "open"):
                self.page.enter_quote()
            case ("blockquote", _):
                self.page.leave_quote()
            case ("table" | "tr" | "th" | "td", _):
                self._table(token, kind, opens=end == "open")
            case _:
                self._leaf(token)

    def _leaf(self, token: Token) -> None:
        match token.type:
            case "inline" if self._cells:
                self._rows[-1].append(self._flat(token.children or []))
            case "inline":
                self._inline(token.children or [])
            case "fence" | "code_block":
                self._preformatted(token.content.rstrip("\n"), token.info.strip())
            case "hr":
                self.page.gap(2)
                self.page.put(_RULE)
                self.page.gap(2)
            case _:  # the head and the body of a table, which show in its rows
                pass

    def _preformatted(self, content: str, info: str) -> None:
        language = info if _LANGUAGE.fullmatch(info) else ""
        self.page.gap(2)
        if info and (not language or not content.strip()):
            self.page.put(info)
            self.page.gap(1)
        self.page.put(content, Style("pre", language=language))
        self.page.gap(2)

    def _table(self, token: Token, kind: str, *, opens: bool) -> None:
        if kind == "table" and opens:
            begin, end = token.map or (0, 0)
            self._written = "\n".join(self._lines[begin:end])
        elif kind == "table":
            rows, self._rows = self._rows, []
            shown = "\n".join(_aligned(rows))
            self._preformatted(self._written.strip("\n") if _loses(self._written, shown) else shown, "")
        elif kind == "tr" and opens:
            self._rows.append([])
        elif kind in {"th", "td"}:
            self._cells = opens

    def _flat(self, children: Sequence[Token]) -> str:
        page, self.page = self.page, Page()
        links, self._links = self._links, False
        self._inline(children)
        cell, self.page, self._links = self.page, page, links
        return "".join(run.text for run in cell.runs).replace("\n", " ")

    def _inline(self, children: Sequence[Token]) -> None:
        begun: list[tuple[Token, int, bool]] = []
        for token in children:
            kind, _, end = token.type.rpartition("_")
            match kind, end:
                case ("link", "open"):
                    begun.append((token, len(self.page.runs), self._open_link(token)))
                case ("link", _):
                    self._close_link(*begun.pop())
                case ("strong" | "em" | "s", "open"):
                    self.page.open.append(_STYLES[kind])
                case ("strong" | "em" | "s", _):
                    self.page.open.remove(_STYLES[kind])
                case _:
                    self._text(token)

    def _text(self, token: Token) -> None:
        match token.type:
            case "softbreak" | "hardbreak":
                self.page.line()
            case "code_inline":
                # Telegram has no code within a link; the link is what cannot be seen otherwise.
                self.page.put(token.content, *(() if self._linking else (CODE,)))
            case "image":
                begin = len(self.page.runs)
                shown = self._open_link(token)
                self._inline(token.children or [])
                self._close_link(token, begin, shown)
            case _:
                self.page.put(token.content)

    @property
    def _linking(self) -> bool:
        return any(style.kind == "text_link" for style in self.page.open)

    def _open_link(self, token: Token) -> bool:
        """Begin a link or an image, and tell whether it can be clicked: within another link it cannot."""
        address = _address(token)
        shown = self._links and can_be_linked(address) and not self._linking
        if shown:
            self.page.open.append(Style("text_link", url=address))
        return shown

    def _close_link(self, token: Token, begin: int, shown: bool) -> None:  # noqa: FBT001 - as it was returned
        address, title = _address(token), token.attrs.get("title")
        label = "".join(run.text for run in self.page.runs[begin:]).strip()
        if not label:
            self.page.put(address, *(() if shown else (CODE,)))
        if shown:
            self.page.open.remove(Style("text_link", url=address))
        elif address not in {"", label, f"mailto:{label}"} and label:
            self.page.put(" (")
            self.page.put(address, CODE)
            self.page.put(")")
        if title:
            self.page.put(f" “{title}”")


def _address(token: Token) -> str:
    return str(token.attrs.get("href", token.attrs.get("src", "")))


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    columns = len(rows[0])
    widths = [min(_WIDEST, max(cell_len(row[place]) for row in rows)) for place in range(columns)]
    for number, row in enumerate(rows):
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield " | ".join(padded).rstrip()
        if number == 0:
            yield "-+-".join("-" * width for width in widths)
