"""The pictures that people sent, for models that see them.

The log holds where a picture is and its digest, the workspace its bytes. A picture that is gone or has changed is not
shown; the message tells in words that it came, and where it was kept. No more are shown than a request may carry, the
newest first.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeGuard

from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, ModelRequestPart, UserPromptPart

from bot.access.decision_context import DecisionContext
from bot.files import locations
from bot.files.port import AbsentError, LabelledFiles, UnusableError
from bot.sessions.log.event_types import UserMessage
from bot.sessions.messages import FileKind

Shown = Mapping[str, BinaryContent]
"""Pictures by the digests of their bytes."""

NONE: Final[Shown] = MappingProxyType({})

_EACH: Final = 3_500_000
"""Bytes of a picture: base64 takes a third more, and some providers take 5 MB."""
_TOGETHER: Final = 14_000_000
_MOST: Final = 20


class Pictures:
    """Reads pictures of a session from its workspace."""

    def __init__(self, root: LabelledFiles) -> None:
        self._root = root

    async def of(self, standing: DecisionContext, messages: Sequence[UserMessage]) -> Shown:
        """Return the pictures that came with messages, as many as are shown."""
        found, left = dict[str, BinaryContent](), _TOGETHER
        for file in reversed([file for message in messages for file in message.files]):
            if file.kind is not FileKind.PICTURE or file.size > min(_EACH, left) or file.digest in found:
                continue
            content = await asyncio.to_thread(self._read, standing, file.path, file.size, file.digest)
            if content:
                found[file.digest] = BinaryContent(content, media_type=file.media_type)
                left -= file.size
            if len(found) == _MOST:
                break
        return found

    def _read(self, standing: DecisionContext, path: str, size: int, digest: str) -> bytes:
        """Return the bytes of this digest, nothing if they are not there."""
        place = locations.workspace(standing.sid, standing.generation, *path.split("/")[1:])
        try:
            found = self._root.find(place, standing.taint)
            content = b"" if found is None else self._root.load(found.place, size)
        except (AbsentError, UnusableError):
            return b""
        return content if hashlib.sha256(content).hexdigest() == digest else b""


def has_picture(message: UserMessage) -> bool:
    """Say whether a message came with a picture."""
    return any(file.kind is FileKind.PICTURE for file in message.files)


def pictured(message: UserMessage, shown: Shown) -> tuple[BinaryContent, ...]:
    """Return the pictures of a message that are shown."""
    return tuple(shown[file.digest] for file in message.files if file.digest in shown)


def has_pictures(messages: Iterable[ModelMessage]) -> bool:
    """Tell whether a request shows a picture."""
    return any(_shows(part) for message in messages for part in message.parts)


def without_pictures(messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
    """Return a request without its pictures; their descriptions in words stay."""
    if not has_pictures(messages):
        return messages
    return [
        replace(message, parts=[_in_words(part) for part in message.parts])
        if isinstance(message, ModelRequest)
        else message
        for message in messages
    ]


def _shows(part: object) -> TypeGuard[UserPromptPart]:
    return isinstance(part, UserPromptPart) and not isinstance(part.content, str)


def _in_words(part: ModelRequestPart) -> ModelRequestPart:
    if not _shows(part):
        return part
    return replace(part, content="".join(item for item in part.content if isinstance(item, str)))
