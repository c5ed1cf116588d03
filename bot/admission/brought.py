"""A file of a message, as far as it was taken in. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.admission.kinds import OTHER, FileType
from bot.admission.names import safe_name
from bot.sessions.log.event_types import MessageFile
from policy.document.reading import WORKSPACE

FOLDER: Final = "incoming"
"""The folder of a workspace in which received files are kept."""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file of a message.

    Args:
        name: Its safe name.
        number: Its number: the position of its message, and its place among that message's files.
        content: Its bytes, empty if it could not be fetched.
        digest: Its SHA-256 in hex.
        nature: Its type.
        text: Its text or transcript, as far as it is examined; None for none.
        more: Whether the file has more text.
        problem: Why it was not accepted, empty if it was.
        remark: A further notice for its sender.
    """

    name: str
    number: str
    content: bytes = b""
    digest: str = ""
    nature: FileType = OTHER
    text: str | None = None
    more: bool = False
    problem: str = ""
    remark: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """Its place in a workspace, with a name that no other file of the session has."""
        return FOLDER, f"{self.number}-{self.name}"

    @property
    def path(self) -> str:
        """Its path as the file tools take it."""
        return "/".join((WORKSPACE, *self.place))

    @property
    def told(self) -> str:
        """The notice for its sender, empty if there is none."""
        sentence = f"not taken in, {self.problem}" if self.problem else self.remark
        return f"`{self.name}`: {sentence}" if sentence else ""

    def shown(self, clean: Callable[[str], str], characters: int) -> "ReceivedFile":
        """Return the file in the form that may be shown: with the shown part of its text, and all of it cleaned."""
        name, text = safe_name(clean(self.name)), None if self.text is None else clean(self.text)
        if text is None:
            return replace(self, name=name)
        return replace(self, name=name, text=text[:characters], more=self.more or len(text) > characters)

    def described(self) -> MessageFile:
        """Return the description of the file for the log: its path and not its bytes."""
        if self.problem:
            return MessageFile(self.name, self.problem)
        return MessageFile(
            self.name,
            kind=self.nature.kind,
            path=self.path,
            media_type=self.nature.media_type,
            size=len(self.content),
            digest=self.digest,
        )
