"""The files of tools' results: kept in the session's own workspace, like those of messages.

The name is ours, the type comes from the bytes, and the label is that of the result with all that the session has read.
A repeated call gives the same file at the same place.
"""

import asyncio
from functools import partial
from types import MappingProxyType
from typing import Final

from bot.admission.kinds import nature
from bot.files import locations
from bot.files.port import LabelledFiles, UnusableError
from bot.mcp.tool import NOT_KEPT, Medium
from bot.sessions.messages import FileKind
from bot.sessions.refs import CallRef
from bot.tools.base import ToolContext
from policy.document.reading import WORKSPACE
from policy.labels import Label

FOLDER: Final = "from-tools"
"""The folder of a workspace in which the files of results are kept."""

_KINDS: Final = MappingProxyType({FileKind.PICTURE: "picture", FileKind.AUDIO: "recording", FileKind.TEXT: "text file"})


class ResultFiles:
    """Keeps the files of results in workspaces."""

    def __init__(self, root: LabelledFiles) -> None:
        self._root = root

    async def keep(self, context: ToolContext, name: str, medium: Medium, label: Label) -> str:
        """Keep a part of a result, and return the line that tells of it."""
        session, found = context.session, nature(medium.content, medium.claimed)
        if not session.sid:
            return NOT_KEPT
        parts = (FOLDER, f"{name}.{found.ending or 'bin'}")
        place = locations.workspace(session.sid, session.generation, *parts)
        came = (CallRef(context.call, session.sid),)
        try:
            await asyncio.to_thread(partial(self._root.keep, place, medium.content, label, refs=came))
        except UnusableError:
            return NOT_KEPT
        told = f"{_KINDS.get(found.kind, 'file')}, {found.media_type}, {len(medium.content)} bytes"
        return f"({told}, kept as {'/'.join((WORKSPACE, *parts))})"
