"""The type of a file, by its first bytes: the claims of its sender and of the platform need not be true.

Pure. Only types that can be shown to a model are distinguished; other files are kept and named.
"""

import codecs
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from bot.sessions.messages import FileKind


@dataclass(frozen=True, slots=True)
class FileType:
    """The type of a file; `media_type` is its standard name, and `ending` the usual ending of file names."""

    kind: FileKind
    media_type: str
    ending: str = ""


OTHER: Final = FileType(FileKind.OTHER, "application/octet-stream")
TEXT: Final = FileType(FileKind.TEXT, "text/plain", "txt")

_MP4: Final = FileType(FileKind.AUDIO, "audio/mp4", "m4a")
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", FileType(FileKind.PICTURE, "image/png", "png")),
    (b"\xff\xd8\xff", FileType(FileKind.PICTURE, "image/jpeg", "jpg")),
    (b"GIF87a", FileType(FileKind.PICTURE, "image/gif", "gif")),
    (b"GIF89a", FileType(FileKind.PICTURE, "image/gif", "gif")),
    (b"OggS", FileType(FileKind.AUDIO, "audio/ogg", "ogg")),
    (b"ID3", FileType(FileKind.AUDIO, "audio/mpeg", "mp3")),
    (b"\xff\xfb", FileType(FileKind.AUDIO, "audio/mpeg", "mp3")),
    (b"\xff\xf3", FileType(FileKind.AUDIO, "audio/mpeg", "mp3")),
    (b"\xff\xf2", FileType(FileKind.AUDIO, "audio/mpeg", "mp3")),
    (b"fLaC", FileType(FileKind.AUDIO, "audio/flac", "flac")),
    (b"%PDF-", FileType(FileKind.OTHER, "application/pdf", "pdf")),
    (b"PK\x03\x04", FileType(FileKind.OTHER, "application/zip", "zip")),
)
_WITHIN: Final = MappingProxyType(
    {b"WEBP": FileType(FileKind.PICTURE, "image/webp", "webp"), b"WAVE": FileType(FileKind.AUDIO, "audio/wav", "wav")}
)
"""The types of files that begin with `RIFF` and a length, by the bytes after it."""

_UTF_16: Final = MappingProxyType({codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"})
_CONTROLS: Final = frozenset(map(chr, range(32))) - set("\t\n\x0b\x0c\r\x1b")
_HEAD: Final = 4096


def nature(content: bytes, claimed: str = "") -> FileType:
    """Return the type of a file.

    Whether a container holds sound or a film is decided by `claimed` alone, which its sender chose: the type changes
    nothing about where the file may go.
    """
    for signature, found in _SIGNATURES:
        if content.startswith(signature):
            return found
    if content.startswith(b"RIFF"):
        return _WITHIN.get(content[8:12], OTHER)
    if content[4:8] == b"ftyp":
        return _MP4 if claimed.startswith("audio/") or content[8:11] == b"M4A" else OTHER
    if content.startswith(b"\x1aE\xdf\xa3"):
        return FileType(FileKind.AUDIO, "audio/webm", "webm") if claimed.startswith("audio/") else OTHER
    return OTHER if beginning(content, _HEAD) is None else TEXT


def beginning(content: bytes, characters: int) -> tuple[str, bool] | None:
    """Return the first characters of a file and whether there are more, None for one that is not text.

    A file is text if its beginning is UTF-8, or UTF-16 with a byte order mark, without characters that no text has.
    """
    encoding = _UTF_16.get(content[:2])
    body = content if encoding is None else content[2:]
    # No character takes more than four bytes, and one that is cut in two is after those that count.
    head = body[: 4 * characters + 4]
    try:
        decoder = codecs.getincrementaldecoder(encoding or "utf-8-sig")()
        text = decoder.decode(head, final=len(head) == len(body))
    except UnicodeDecodeError:
        return None
    if not content or not _CONTROLS.isdisjoint(text):
        return None
    return text[:characters], len(text) > characters or len(head) < len(body)
