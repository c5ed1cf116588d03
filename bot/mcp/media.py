"""The parts of a result that are no text: bytes that a session keeps as a file, and links that nobody follows.

The name of a file and its type are ours: nothing that a server says about its bytes counts. An address is written so
that neither a program nor a chat takes it for one: it is never fetched because a result names it.
"""

import re
from base64 import b64decode
from binascii import Error as EncodingError
from collections.abc import Callable
from typing import Final

from mcp import types

from bot.mcp.tool import Medium

MOST: Final = 20
"""Files of one result; its bytes are bounded by the longest message."""

BROKEN: Final = "(a file that cannot be read was left out)"
_PARTS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//|)([^/?#]*)(.*)\Z")
_WORDS: Final = 200
_ADDRESS: Final = 1000


def medium(block: types.ContentBlock, scrub: Callable[[str], str]) -> Medium | str | None:
    """Return the bytes of a part, or the line that stands for a link; None for a part that is neither.

    `scrub` takes the values of secrets out of both, before an address is rewritten or words are cut.
    """
    match block:
        case types.ImageContent() | types.AudioContent():
            return _decoded(block.data, block.mime_type, scrub)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as blob):
            return _decoded(blob.blob, blob.mime_type or "", scrub)
        case types.ResourceLink():
            return _link(block, scrub)
        case _:
            return None


def inert(address: str) -> str:
    """Return an address as a text that is none: `https[:]//example[.]com/a`."""
    return " ".join(map(_inert, _line(address, _ADDRESS).split()))


def _inert(word: str) -> str:
    found = _PARTS.match(word)
    if found is None:
        return word.replace(".", "[.]")
    scheme, slashes, host, rest = found.groups()
    # A path or a query may hold an address too, and Telegram links a bare name such as `evil.example`.
    rest = f"{host}{rest}".replace("://", "[:]//").replace(".", "[.]")
    return f"{scheme}[:]{slashes}{rest}"


def _decoded(text: str, claimed: str, scrub: Callable[[str], str]) -> Medium | str:
    try:
        content = b64decode(text, validate=True)
    except (EncodingError, ValueError):
        return BROKEN
    # Bytes that are no text come back as they were.
    content = scrub(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    return Medium(content, claimed) if content else BROKEN


def _link(link: types.ResourceLink, scrub: Callable[[str], str]) -> str:
    named, said = (
        _line(scrub(text or ""), _WORDS).replace("://", "[:]//") for text in (link.title or link.name, link.description)
    )
    about = f": {said}" if said else ""
    return f"(a link to the resource `{named}` at {inert(scrub(link.uri))}, which was not opened{about})"


def _line(text: str, most: int) -> str:
    """Return words of a server in one line."""
    return "".join(char if char.isprintable() else " " for char in text[:most]).strip()
