"""The values that cross the border between an adapter and the application: frozen, platform-neutral."""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

_PARTS: Final = 4


@lru_cache(8192)
def _quoted(part: str) -> str:
    return quote(part, safe="")


@dataclass(frozen=True, slots=True)
class Address:
    """A place for messages: channel, workspace, chat and thread, as the platform's own ids, verbatim.

    With a `recipient`, an account of that chat, only that account sees the text there.
    """

    channel: str
    chat: str
    workspace: str = ""
    thread: str = ""
    recipient: str = ""

    def __str__(self) -> str:
        """Return the text form; different addresses have different texts."""
        parts = (self.channel, self.workspace, self.chat, self.thread)
        written = (*parts, self.recipient) if self.recipient else parts
        return ":".join(map(_quoted, written))

    @property
    def place(self) -> "Address":
        """The chat it is in, without its thread and its recipient."""
        return Address(self.channel, self.chat, self.workspace)

    @staticmethod
    def parse(text: str) -> "Address":
        """Read the text form back.

        Raises ValueError: if it was not made by `str(address)`.
        """
        parts = text.split(":")
        if len(parts) not in {_PARTS, _PARTS + 1} or (len(parts) > _PARTS and not parts[-1]):
            raise ValueError(f"`{text}` is not an address")
        channel, workspace, chat, thread, *rest = (unquote(part, errors="strict") for part in parts)
        return Address(channel, chat, workspace, thread, *rest)


class How(StrEnum):
    """How something was sent: typed, by a button that this bot offered, or by opening a page that it fills."""

    TEXT = "text"
    BUTTON = "button"
    OPENED = "opened"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message, as its sender and the platform describe it: none of that need be true."""

    handle: str
    """The name by which the platform's adapter fetches it, valid for days."""
    name: str
    """The file's name, as its sender or the platform gives it."""
    media_type: str = ""
    size: int = 0
    """The size in bytes, 0 where it is unknown."""


EDIT: Final = "an edit"
"""The kind of a message that was changed: it was read as it was before, if it was read at all."""


@dataclass(frozen=True, slots=True)
class MessagePart:
    """The place of a message among several that its sender's client made of one.

    The application joins them: an album, and a text that was cut. Each of them is an `Inbound` with an own identity.
    """

    album: str = ""
    """The platform's name of the album, empty for a text."""
    more: bool = False
    """The text is so long that the client may have cut it, and the next one may continue it."""
    continues: bool = False
    """The text continues the one before it, so it is never a command, nor a plain answer to a question."""


@dataclass(frozen=True, slots=True)
class Inbound:
    """A message that a person or a program sent."""

    address: Address
    account: str
    """The sender, as `channel:id` and verbatim; the application finds the principal."""
    text: str
    dedupe: str
    """The platform's identity of the update: the same update again has the same one."""
    authored: bool = True
    """True only for text that the account typed itself: forwards, quotes and files are not."""
    quoted: tuple[str, ...] = ()
    """Texts of others that came with it."""
    private: bool = True
    """No other person reads at the address."""
    addressed: bool = True
    """It was meant for this bot: in a private chat always, elsewhere by a mention, a reply to the bot or a command."""
    opens: bool = False
    """It stands in no thread yet, and an answer to it would begin the thread of the address."""
    how: How = How.TEXT
    files: tuple[Attachment, ...] = ()
    """The files that came beside the text."""
    press: str = ""
    """The adapter's name of a press on a button that can be answered, empty where there is none."""
    bot: bool = False
    """A program sent it, one of those that are read: in a shared chat, and never as `authored`."""
    part: MessagePart | None = None
    """Its place among the parts of one message, None for a whole message."""
    unread: str = ""
    """The kind of a message that the adapter cannot read, such as `a sticker`; the message then has no content."""

    @property
    def identity(self) -> str:
        """Its identity among the updates of every channel; a repeated update has the same one."""
        return f"{self.address.channel}/{self.dedupe}"


@dataclass(frozen=True, slots=True)
class Membership:
    """An account joined a shared chat or left it, so that other people read there now.

    `own` tells that it was this bot, `by` is the account that let it in or sent it away, empty if unknown.
    """

    address: Address
    account: str
    joined: bool
    dedupe: str
    own: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class Moved:
    """A chat has another id from now on: who reads at `address` reads at `to`."""

    address: Address
    to: Address
    dedupe: str


Event = Inbound | Membership | Moved
"""Any event that an adapter reports."""


class OutboundKind(StrEnum):
    """How a text wants to be shown."""

    ANSWER = "answer"
    MESSAGE = "message"
    NOTICE = "notice"
    QUESTION = "question"
    OFFER = "offer"

    @property
    def verbatim(self) -> bool:
        """Whether the program itself says it: a formatting that hid a part would deceive the reader."""
        return self in {OutboundKind.NOTICE, OutboundKind.OFFER, OutboundKind.QUESTION}


FROM_OUTSIDE: Final = "Text from outside; nobody here checked it:"
"""The mark of a text that anybody may have written."""

OUTSIDE_FILE: Final = "text-from-outside.md"


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a text: its label, and the command it stands for.

    Pressing it is no more than typing that command: the user who presses is authorized for it.
    """

    label: str
    command: str


@dataclass(frozen=True, slots=True)
class Outbound:
    """A text to be sent to an address."""

    address: Address
    text: str
    key: str
    """Its idempotency key, the same at every attempt."""
    kind: OutboundKind = OutboundKind.ANSWER
    repeated: bool = False
    """People may have seen an earlier attempt already; the adapter marks it."""
    links: bool = False
    """Only with this may a link in it be followed.

    Some platforms fetch a link by themselves, which would carry the text to the link's owner.
    """
    buttons: tuple[Button, ...] = ()
    replaces: str = ""
    """The receipt that `Channel.send` returned for an earlier text.

    This text replaces that one, with its buttons and no others; if that is impossible by then, nothing is sent.
    """
    untrusted: bool = False
    """Anybody may have written the text, and it came unread: the adapter shows `FROM_OUTSIDE` outside of it.

    It does so above every message that shows a part of it, and names a file of it `OUTSIDE_FILE`.
    """
    press: str = ""
    """The `press` of the `Inbound` that this answers.

    The person who pressed may get the text as the answer to the press, if no other person gets it.
    """


class Signal(StrEnum):
    """An activity that may be shown without a message: no free text, nothing durable.

    `STILL` is sent repeatedly while work goes on, for platforms that stop showing an activity by themselves.
    """

    WORKING = "working"
    STILL = "still"
    READING = "reading"
    WRITING = "writing"
    DONE = "done"
