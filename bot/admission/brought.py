"""A file of a message, as far as it was taken in. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from bot.admission.kinds import OTHER, FileType
from bot.admission.names import safe_name
from bot.sessions.log.event_types import MessageFile
from policy.document.reading import WORKSPACE

FOLDER: Final = "incoming"
"""The folder of a workspace in which they are kept."""


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A file of a message.

    `name` is what it is called here, `number` which of the message's it is. `content` is empty if it could not be had,
    `digest` is its SHA-256 in hex.
    `text` is what it says, or what is said in it, as far as it is looked at; `more` tells that there is more of it.
    `problem` is why it was not taken in, and `remark` what else its sender is to be told.
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
        """Where it is kept in a workspace: a name that no other file of the session has."""
        return FOLDER, f"{self.number}-{self.name}"

    @property
    def path(self) -> str:
        """Its path as the tools for files take it."""
        return "/".join((WORKSPACE, *self.place))

    @property
    def told(self) -> str:
        """What its sender is told, empty if there is nothing to tell."""
        sentence = f"not taken in, {self.problem}" if self.problem else self.remark
        return f"`{self.name}`: {sentence}" if sentence else ""

    def shown(self, clean: Callable[[str], str], characters: int) -> "ReceivedFile":
        """Return it as it may go on: with as much of its text as is shown, and with everything in it cleaned."""
        name, text = safe_name(clean(self.name)), None if self.text is None else clean(self.text)
        if text is None:
            return replace(self, name=name)
        return replace(self, name=name, text=text[:characters], more=self.more or len(text) > characters)

    def described(self) -> MessageFile:
        """Return what the log says of it: where it is, and not its bytes."""
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
