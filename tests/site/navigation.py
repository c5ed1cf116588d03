"""The site's navigation, by reader: `docs/site/navigation.toml`, given to Sphinx as it reads the pages.

README.md stays the file that a forge shows. The directives that Sphinx needs are added to the text that it reads.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

START: Final = "README.md"
"""The page that the site begins with."""


class Reader(BaseModel):
    """A group of readers.

    Args:
        name: the caption above their pages.
        pages: paths of pages relative to the root, or patterns of paths.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    pages: tuple[str, ...]


class Navigation(BaseModel):
    """The whole file.

    Args:
        reader: the groups, in their order.
        folders: for a folder of pages, the page that lists them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reader: tuple[Reader, ...]
    folders: dict[str, str]


def read(root: Path) -> Navigation:
    """Return the navigation of the repository in this folder.

    Raises:
        OSError: the file cannot be read.
        tomllib.TOMLDecodeError: the file is not TOML.
        pydantic.ValidationError: the file has another shape.
    """
    return Navigation.model_validate(tomllib.loads((root / "docs/site/navigation.toml").read_text("utf-8")))


@dataclass(frozen=True, slots=True)
class Directives:
    """The tables of contents that Sphinx reads behind a page."""

    navigation: Navigation

    def behind(self, page: str) -> str:
        """Return what is read behind this page; for most pages that is nothing."""
        if page == START:
            return "".join(_contents(reader.pages, reader.name) for reader in self.navigation.reader)
        folders = [folder for folder, index in self.navigation.folders.items() if index == page]
        return "".join(_contents((f"{folder}/*.md",)) for folder in folders)


def _contents(pages: tuple[str, ...], caption: str = "") -> str:
    """Return a table of contents; one with a caption shows in the navigation alone."""
    options = [":glob:", f":caption: {caption}", ":hidden:"] if caption else [":glob:", ":titlesonly:"]
    entries = ["Lockgate <self>" if page == START else f"/{page.removesuffix('.md')}" for page in pages]
    return "\n".join(["", "", "```{toctree}", *options, "", *entries, "```", ""])


def _append(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] += Directives(read(Path(app.srcdir))).behind(f"{docname}.md")


def _begin(app: Sphinx, failure: Exception | None) -> None:
    """Write the page that a server shows for the site's address: it leads to the start page."""
    if failure is None:
        there = START.replace(".md", ".html")
        page = f'<!doctype html><title>Lockgate</title><meta http-equiv="refresh" content="0; url={there}">\n'
        (Path(app.outdir) / "index.html").write_text(page, "utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Give Sphinx the navigation."""
    app.connect("source-read", _append)
    app.connect("build-finished", _begin)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
