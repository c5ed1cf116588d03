"""What crosses the border between an adapter and the application: frozen values, platform-neutral."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import quote, unquote

_PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class Address:
    """Where something can be said: channel, workspace, chat and thread, as the platform's own ids, verbatim.

    With a `recipient`, an account of that chat, it is what that account alone gets to see there.
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
        return ":".join(quote(part, safe="") for part in written)

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
    """A file that came with a message, as its sender and the platform describe it: none of that need be true.

    `handle` is what the platform's adapter fetches it by, for days. `size` is in bytes, 0 where nobody said.
    """

    handle: str
    name: str
    media_type: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class Inbound:
    """Something a person sent.

    `account` is who sent it, as `channel:id` and verbatim; the application finds the principal. `dedupe`
    is the platform's identity of the update: the same update again has the same. `authored` is true only
    for text the account typed itself: forwards, quotes and files are not. `quoted` is text of others that came with
    it, `files` what came beside it. `private` tells that nobody else reads at the address, `addressed` that it was
    meant for this bot: in a private chat always, elsewhere by a mention, a reply to the bot or a command. `opens` tells
    that it stands in no thread yet, and that what answers it would begin the one of the address. `press` is what the
    adapter calls a press on a button that can be answered with words, empty where there is none. `bot` tells that a
    program sent it, one of those that are read: in a shared chat, and never as `authored`.
    """

    address: Address
    account: str
    text: str
    dedupe: str
    authored: bool = True
    quoted: tuple[str, ...] = ()
    private: bool = True
    addressed: bool = True
    opens: bool = False
    how: How = How.TEXT
    files: tuple[Attachment, ...] = ()
    press: str = ""
    bot: bool = False

    @property
    def identity(self) -> str:
        """Its identity among the updates of every channel; what a platform tells again has the same."""
        return f"{self.address.channel}/{self.dedupe}"


@dataclass(frozen=True, slots=True)
class Membership:
    """An account joined a shared chat or left it, so that other people read there now.

    `own` tells that it was this bot, `by` is the account that let it in or sent it away, empty if nobody tells.
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
"""Whatever an adapter tells."""


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


@dataclass(frozen=True, slots=True)
class Button:
    """What a person can press under a text: what it says, and the command it stands for.

    Pressing it is no more than typing that command: the user who presses is authorized for it.
    """

    label: str
    command: str


@dataclass(frozen=True, slots=True)
class Outbound:
    """Something to be said at an address.

    `key` is its idempotency key, the same at every attempt. `repeated` tells that an earlier attempt may
    have been seen already, which the adapter marks. Only with `links` may an address in it be followed: fetching what
    a link names, which some platforms do by themselves, would carry the text to its owner. `replaces` is what
    `Channel.send` called something said before, in whose place this is to stand, with its buttons and no others; where
    that cannot be any more nothing is said. `press` is that of the `Inbound` which this answers: whoever pressed may be
    told in its place, if nobody else is.
    """

    address: Address
    text: str
    key: str
    kind: OutboundKind = OutboundKind.ANSWER
    repeated: bool = False
    links: bool = False
    buttons: tuple[Button, ...] = ()
    replaces: str = ""
    press: str = ""


class Signal(StrEnum):
    """What may be shown without being said: no free text, nothing durable.

    `STILL` comes again and again while something goes on: what a platform stops showing by itself is shown again.
    """

    WORKING = "working"
    STILL = "still"
    READING = "reading"
    WRITING = "writing"
    DONE = "done"
