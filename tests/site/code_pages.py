"""Pages of the site for linked files and folders that are no pages, such as `config.yaml` and `bot/gate`.

A forge shows such a file as it is, and a folder as a list. So does the site: with the file's text, or with the names in
the folder and the first line of each docstring. A path that does not exist gets no page, so its link fails the build.
"""

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata

from tests.site.navigation import read

if TYPE_CHECKING:
    from sphinx.builders.html import StandaloneHTMLBuilder

LINKED: Final = "lockgate_linked"
"""The attribute of Sphinx's environment that keeps the linked paths."""

LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".lua": "lua"}


class LinksToCode(SphinxTransform):
    """Make a link to a file or folder of the repository, which is no page, lead to the page made of it."""

    default_priority = 1

    def apply(self, **kwargs: object) -> None:
        """Replace each such link of the page that was just read."""
        del kwargs
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for link in list(self.document.findall(kind)):
                if link.get("reftype") == "myst" and link.get("refdomain") is None:
                    self._lead(link)

    def _lead(self, link: nodes.Element) -> None:
        target = str(link["reftarget"])
        root, path = Path(self.env.srcdir), Path(self.env.relfn2path(target, self.env.docname)[1])
        if target.startswith("#") or not path.exists() or not path.is_relative_to(root):
            return
        name = path.relative_to(root).as_posix()
        index = read(root).folders.get(name)
        if index is None:
            linked(self.env).add(name)
        page = f"code/{name}" if index is None else index.removesuffix(".md")
        uri = self.app.builder.get_relative_uri(self.env.docname, page)
        link.replace_self(nodes.reference("", "", *link.children, internal=True, refuri=uri))


def linked(environment: BuildEnvironment) -> set[str]:
    """Return the linked paths, relative to the root, as the set that the environment keeps."""
    if not hasattr(environment, LINKED):
        setattr(environment, LINKED, set[str]())
    return cast("set[str]", getattr(environment, LINKED))


def _merge(app: Sphinx, environment: BuildEnvironment, pages: set[str], other: BuildEnvironment) -> None:
    """Take over the paths that another process found while it read some of the pages."""
    del app, pages
    linked(environment).update(linked(other))


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each page as Sphinx takes it: its name, what its template shows, and the name of that template."""
    for name in sorted(linked(app.env)):
        path = Path(app.srcdir) / name
        body = _folder(path) if path.is_dir() else _file(app, path)
        yield f"code/{name}", {"title": name, "body": f"<h1>{escape(name)}</h1>\n{body}"}, "page.html"


def _file(app: Sphinx, path: Path) -> str:
    builder = cast("StandaloneHTMLBuilder", app.builder)
    return builder.highlighter.highlight_block(path.read_text("utf-8"), LANGUAGES.get(path.suffix, "text"))


def _folder(folder: Path) -> str:
    shown = [path for path in sorted(folder.iterdir()) if not path.name.startswith((".", "__pycache__"))]
    rows = (
        f"<tr><td><code>{escape(path.name)}{'/' if path.is_dir() else ''}</code></td>"
        f"<td>{escape(_first_line(path))}</td></tr>\n"
        for path in shown
    )
    return f'<table class="docutils">\n{"".join(rows)}</table>'


def _first_line(path: Path) -> str:
    """Return the first line of a module's docstring, or of a package's; nothing for another file."""
    source = path / "__init__.py" if path.is_dir() else path
    if source.suffix != ".py" or not source.is_file():
        return ""
    return (ast.get_docstring(ast.parse(source.read_text("utf-8"))) or "").partition("\n")[0]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Make links to code lead to pages, and write these."""
    app.add_transform(LinksToCode)
    app.connect("env-merge-info", _merge)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
