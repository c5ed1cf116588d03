"""How the site shows a transcript of the console: typed lines stand out, answers are plain."""

from collections.abc import Iterator
from typing import Any

from pygments.lexer import Lexer
from pygments.token import Generic, Text
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


class Transcript(Lexer):
    """The text of a `transcript` example, in which typed lines begin with `> `."""

    name = "Transcript"

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        """Yield each line with its place and its kind."""
        place = 0
        for line in text.splitlines(keepends=True):
            yield place, Generic.Strong if line.startswith("> ") else Text, line
            place += len(line)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Show such examples so."""
    app.add_lexer("transcript", Transcript)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
