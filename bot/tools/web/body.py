"""A web server's answer, read within bounds and made a text: sizes, compression, encodings, HTML.

Servers lie. Sizes are counted while the bytes arrive, before and after decompression. An encoding is one of a few that
browsers know, and a body that is not text in it is refused. Errors here never repeat the server's words.
"""

import codecs
import zlib
from collections.abc import AsyncIterator
from email.message import Message
from typing import Final

RATIO: Final = 100
"""The factor by which a page may grow when decompressed; text that people wrote shrinks less."""

_UNSUSPICIOUS: Final = 100_000
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS: Final = frozenset({"application/json", "application/xml", "application/javascript", *_HTML})
_SUFFIXES: Final = ("+json", "+xml")
_CHARSETS: Final = frozenset(
    {"ascii", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "koi8-r", "koi8-u", "shift_jis", "euc_jp"}
    | {"iso2022_jp", "euc_kr", "gb18030", "gbk", "gb2312", "big5"}
    | {f"iso8859-{part}" for part in (*range(1, 12), 13, 14, 15, 16)}
    | {f"cp{page}" for page in (874, 932, 949, *range(1250, 1259))}
)
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CONTROLS: Final = dict.fromkeys(code for code in (*range(32), 127) if chr(code) not in "\t\n\r")
_DEPTH: Final = 200

NO_TEXT: Final = "the server's answer is not text"


class BodyError(Exception):
    """The body cannot be shown; the error's text is a constant."""


async def read(chunks: AsyncIterator[bytes], encoding: str, most: int) -> bytes:
    """Return a body of at most `most` bytes, as sent and as decompressed; `encoding` is its Content-Encoding.

    Raises BodyError: it is larger, was compressed beyond measure, is broken, or is in an encoding that was not asked
    for.
    """
    encoding = encoding.strip().lower()
    if encoding not in {"", "identity", "gzip", "x-gzip"}:
        raise BodyError("the server sent an encoding that nobody asked for")
    unzip = zlib.decompressobj(zlib.MAX_WBITS | 16) if encoding.endswith("gzip") else None
    body, sent = bytearray(), 0
    async for chunk in chunks:
        sent += len(chunk)
        try:
            body += chunk if unzip is None else unzip.decompress(chunk, most + 1 - len(body))
        except zlib.error:
            raise BodyError("the server's answer is not of the type that it names") from None
        if sent > most or len(body) > most:
            raise BodyError(f"the page is larger than {most // 1000} kB")
        if len(body) > _UNSUSPICIOUS and len(body) > RATIO * sent:
            raise BodyError("the server's answer is compressed beyond measure")
    if unzip is not None and sent and not unzip.eof:
        raise BodyError("the page broke off")
    return bytes(body)


def media(content_type: str) -> tuple[str, str]:
    """Return media type and declared encoding, UTF-8 if none is declared.

    Raises BodyError: the type is not text.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if not (kind.startswith("text/") or kind in _TEXTS or kind.endswith(_SUFFIXES)):
        raise BodyError(NO_TEXT)
    header = Message()
    header["content-type"] = content_type
    return kind, str(header.get_param("charset", "utf-8"))


def decoded(body: bytes, charset: str) -> str:
    """Return a body as text; a byte order mark counts more than the declared encoding.

    Raises BodyError: the encoding is not known, or the body is not text in it.
    """
    charset = next((name for mark, name in _BOMS if body.startswith(mark)), charset)
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        name = ""
    if name not in _CHARSETS:
        raise BodyError("the server names an encoding that is not known here")
    text = body.decode(name, errors="replace")
    strange = text.count("\N{REPLACEMENT CHARACTER}") + sum(text.count(chr(code)) for code in _CONTROLS)
    if strange > 10 + len(text) // 100:
        raise BodyError(NO_TEXT)
    return text.translate(_CONTROLS)


def readable(text: str, kind: str, address: str) -> str:
    """Return a page as people read it: HTML becomes Markdown with whole addresses, anything else stays.

    It takes time: call it from a thread.

    Raises BodyError: the HTML cannot be read.
    """
    if kind not in _HTML:
        return text
    from html_to_markdown import ConversionOptions, convert

    options = ConversionOptions(base_url=address, skip_images=True, max_depth=_DEPTH)
    try:
        return convert(text, options).content or ""
    except Exception:  # noqa: BLE001 - the library may raise anything on hostile input
        raise BodyError("the page's HTML cannot be read") from None
