"""What crosses the border between an adapter and the application: frozen values, platform-neutral."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import quote, unquote

_PARTS: Final = 4


@dataclass(frozen=True, slots=True)
class Address:
    """Where something can be said: channel, workspace, chat and thread, as the platform's own ids, verbatim."""

    channel: str
    chat: str
    workspace: str = ""
    thread: str = ""

    def __str__(self) -> str:
        """Return the text form; different addresses have different texts."""
        return ":".join(quote(part, safe="") for part in (self.channel, self.workspace, self.chat, self.thread))

    @staticmethod
    def parse(text: str) -> "Address":
        """Read the text form back.

        Raises ValueError: if it was not made by `str(address)`.
        """
        parts = text.split(":")
        if len(parts) != _PARTS:
            raise ValueError(f"`{text}` is not an address")
        channel, workspace, chat, thread = (unquote(part, errors="strict") for part in parts)
        return Address(channel, chat, workspace, thread)


@dataclass(frozen=True, slots=True)
class Inbound:
    """Something a person sent.

    `account` is who sent it, as `channel:id` and verbatim; the application finds the principal. `dedupe`
    is the platform's identity of the update: the same update again has the same. `authored` is true only
    for text the account typed itself: forwards, quotes and files are not. `private` tells that nobody else reads there.
    """

    address: Address
    account: str
    text: str
    dedupe: str
    authored: bool = True
    private: bool = True


class OutboundKind(StrEnum):
    """How a text wants to be shown."""

    ANSWER = "answer"
    MESSAGE = "message"
    NOTICE = "notice"
    QUESTION = "question"


@dataclass(frozen=True, slots=True)
class Outbound:
    """Something to be said at an address.

    `key` is its idempotency key, the same at every attempt. `repeated` tells that an earlier attempt may
    have been seen already, which the adapter marks.
    """

    address: Address
    text: str
    key: str
    kind: OutboundKind = OutboundKind.ANSWER
    repeated: bool = False


class Signal(StrEnum):
    """What may be shown without being said: no free text, nothing durable."""

    WORKING = "working"
    READING = "reading"
    WRITING = "writing"
    DONE = "done"
