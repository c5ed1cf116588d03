"""The pages a reader gets, taken apart: their links, headings, the paths they name, and their fenced examples."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(f"docs/{path.relative_to(ROOT / 'docs').as_posix()}" for path in (ROOT / "docs").rglob("*.md")),
)

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
_CODE = re.compile(r"`(?P<code>[^`\n]+)`")
_OURS = re.compile(r"(?:bot|channels|docs|policy|tests)/[\w./-]*\Z")


@dataclass(frozen=True)
class Block:
    """A fenced example: `words` stand behind the fence, `line` is where it begins."""

    words: tuple[str, ...]
    text: str
    line: int


@dataclass(frozen=True)
class Shown:
    """A command of a `console` example, and what the page says it prints; nothing if the page does not say."""

    command: str
    output: str


@dataclass(frozen=True)
class Example:
    """A `console` example: its commands, the exit code of the last, and the configuration last shown above it.

    `files` are those that are shown above it, by the names behind their fences.
    """

    page: str
    line: int
    code: int
    config: str | None
    shown: tuple[Shown, ...]
    files: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def text_of(page: str) -> str:
    """Return a page's text."""
    return (ROOT / page).read_text("utf-8")


def blocks(page: str, kind: str) -> Iterator[Block]:
    """Yield the examples whose fence begins with this word."""
    text = text_of(page)
    for match in _FENCE.finditer(text):
        words = tuple(match["info"].split())
        if words[:1] == (kind,):
            yield Block(words, match["text"], text.count("\n", 0, match.start()) + 1)


def files(page: str, before: int | None = None) -> dict[str, str]:
    """Return the files that a page shows, to a line: blocks with a name behind the fence, of the same name the last."""
    shown = (
        block for kind in ("python", "yaml") for block in blocks(page, kind) if before is None or block.line < before
    )
    return {name: block.text for block in shown for name in block.words[1:] if name.endswith((".py", ".yaml"))}


def prose(page: str) -> str:
    """Return a page without its examples."""
    return _FENCE.sub("", text_of(page))


def links(page: str) -> list[str]:
    """Return what a page links to."""
    return [match["target"] for match in _LINK.finditer(prose(page))]


def anchors(page: str) -> set[str]:
    """Return the names that the headings of a page can be linked by."""
    titles = (match["title"].lower() for match in _HEADING.finditer(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def named_paths(page: str) -> set[str]:
    """Return the paths of this project that a page names as code, in prose."""
    codes = (match["code"].partition("::")[0] for match in _CODE.finditer(prose(page)))
    return {code for code in codes if _OURS.match(code)}


def named_tests(page: str) -> set[tuple[str, str]]:
    """Return the tests, file and function, that a page names as `file::function`."""
    return set(named_tests_in(prose(page)))


def named_tests_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield the tests, file and function, that a text names as `file::function`."""
    codes = (match["code"].partition("::") for match in _CODE.finditer(text))
    yield from ((path, function) for path, colons, function in codes if colons)


def examples(page: str) -> Iterator[Example]:
    """Yield a page's `console` examples."""
    configs = [block for block in blocks(page, "yaml") if "cases" not in block.words]
    for block in blocks(page, "console"):
        above = [config.text for config in configs if config.line < block.line]
        code = int(block.words[1].removeprefix("exit-")) if len(block.words) > 1 else 0
        yield Example(
            page, block.line, code, above[-1] if above else None, tuple(_shown(block.text)), files(page, block.line)
        )


def _shown(text: str) -> Iterator[Shown]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Shown(command, output)
