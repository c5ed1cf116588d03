"""The files of a message, as the Bot API describes them. Pure: JSON in, values out.

A sticker is none. What a file is called and how large it is, its sender and Telegram say; Telegram names no photo and
no recording, so that those get a name by their kind.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from channels.message import Attachment

Json = Mapping[str, Any]

_NAMES: Final = MappingProxyType(
    {
        "animation": "animation.mp4",
        "audio": "audio.mp3",
        "document": "document",
        "video": "video.mp4",
        "video_note": "video.mp4",
        "voice": "voice.ogg",
    }
)
_LONGEST: Final = 255


def attached(message: Json) -> tuple[Attachment, ...]:
    """Return the files of a message, each once: an animation is told as a document, too.

    Raises KeyError or TypeError: it is not a message as the Bot API describes them.
    """
    found = dict[str, Attachment]()
    for kind, name in _NAMES.items():
        if (file := message.get(kind)) is not None:
            found.setdefault(str(file["file_id"]), _attachment(file, name))
    if sizes := message.get("photo"):
        largest = max(sizes, key=lambda size: size["width"] * size["height"])
        found[str(largest["file_id"])] = _attachment(largest, "photo.jpg", "image/jpeg")
    return tuple(found.values())


def _attachment(file: Json, name: str, media_type: str = "") -> Attachment:
    return Attachment(
        handle=str(file["file_id"]),
        name=str(file.get("file_name") or name)[:_LONGEST],
        media_type=str(file.get("mime_type") or media_type)[:_LONGEST],
        size=int(file.get("file_size") or 0),
    )
