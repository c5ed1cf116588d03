"""The port every adapter implements, the right it may need, and the errors it normalises its platform's to."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from channels.messages import Address, Attachment, Event, Outbound, Signal


class ChannelError(Exception):
    """A send failed for certain; nobody saw the text."""


class AmbiguousSendError(ChannelError):
    """Nobody knows whether the text was seen; it is never repeated silently."""


class BusyChannelError(ChannelError):
    """The platform takes nothing more for `seconds`: in that chat, or with `everywhere` from this bot at all."""

    def __init__(self, seconds: float, *, everywhere: bool = False) -> None:
        super().__init__(f"the platform asks to wait {seconds:g} s")
        self.seconds = seconds
        self.everywhere = everywhere


class GoneError(ChannelError):
    """Nothing can be said there any more: the bot was blocked or removed, or the chat or thread is gone."""


class FileRefusedError(ChannelError):
    """A file is refused for good, where a text may still be taken."""

    def __init__(self) -> None:
        super().__init__("the chat does not take the file")


class FixedMessageError(ChannelError):
    """A message cannot be changed any more."""


class LargeFileError(ChannelError):
    """A file has more than `most` bytes; nothing of it is kept."""

    def __init__(self, most: int) -> None:
        super().__init__(f"the file has more than {most} bytes")
        self.most = most


class ListenError(ChannelError):
    """A platform cannot be listened to until an operator mends it; `next_step` tells how."""

    def __init__(self, problem: str, next_step: str) -> None:
        super().__init__(problem)
        self.next_step = next_step


class VaultError(ChannelError):
    """What an adapter keeps cannot be read or written now, so what needs it was not done either."""


class ReaderKind(StrEnum):
    """What the platform says of a reader: of this workspace, its guest, of somewhere else, or a program."""

    MEMBER = "member"
    GUEST = "guest"
    STRANGER = "stranger"
    BOT = "bot"


@dataclass(frozen=True, slots=True)
class Reader:
    """An account that reads at an address, as `channel:id` and verbatim.

    `account` may also stand for all of a kind, where a platform lists them no further: no principal has it.
    """

    account: str
    kind: ReaderKind = ReaderKind.STRANGER


@dataclass(frozen=True, slots=True)
class Audience:
    """Who reads at an address, now, this bot left out.

    `complete` is false when the platform cannot tell; `shared` tells that it is not the private chat of one person.
    """

    readers: frozenset[Reader]
    complete: bool
    shared: bool = False

    @staticmethod
    def of(*accounts: str, complete: bool = True, shared: bool = False) -> "Audience":
        """Return an audience of accounts of which the platform says no more."""
        return Audience(frozenset(map(Reader, accounts)), complete, shared)


class Channel(Protocol):
    """What the application asks of an adapter."""

    @property
    def name(self) -> str:
        """The first part of its addresses."""
        ...

    @property
    def marks_repeats(self) -> bool:
        """Whether it can show a text again with a mark that it may have been seen; otherwise it is reported."""
        ...

    async def send(self, outbound: Outbound) -> str:
        """Say it, and return what the platform calls what was said, of several messages the last one.

        Callers do not look into it; it is empty where nothing that was said can be changed any more.
        Raises ChannelError: it was certainly not said. AmbiguousSendError: nobody knows.
        """
        ...

    @property
    def previews(self) -> bool:
        """Whether it can show a text that is still being written; otherwise nothing is shown until it is finished."""
        ...

    async def preview(self, outbound: Outbound) -> None:
        """Show a text as far as it is written, in the place of what was shown of it before.

        An empty one takes it back, and so does `Signal.DONE`; a `send` with the same key stands in its place.

        Raises ChannelError: it was not shown.
        """
        ...

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that something is going on; failing is no error."""
        ...

    async def audience(self, address: Address) -> Audience:
        """Tell who reads at the address now."""
        ...


Answer = Callable[[], Awaitable[None]]
"""Say what is left to be said of something that is kept. It may take long, and keeps nobody waiting."""

Receive = Callable[[Event], Awaitable[Answer | None]]
"""Take in what a platform tells: when this returns it is kept, and the platform may be told so.

Returns what is left to be said of it. Raises an exception: it could not be kept, so it must be told again.
"""


Began = Callable[[], None]
"""Is told when what a platform tells can come: its first answer, its greeting, or the address that it is told."""


def untold() -> None:
    """Tell nobody that listening began."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with an adapter's connection: a sentence, and how to mend it.

    A `remark` tells what may be meant as it is. What `names` others who use the bot, is not for everybody. What is
    `sealed` tells of sessions that may have read anything.
    """

    problem: str
    next_step: str = ""
    remark: bool = False
    names: bool = False
    sealed: bool = False


@runtime_checkable
class FileSource(Protocol):
    """Where files that came with messages can be had."""

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return a file that came with a message, of at most `most` bytes.

        Raises LargeFileError: it is larger, or than what the platform hands out. ChannelError: it cannot be had.
        """
        ...


class Platform(Channel, FileSource, Protocol):
    """An adapter that listens by itself, as all do but the console."""

    async def serve(self, receive: Receive, began: Began = untold) -> None:
        """Connect and listen until cancelled. What can be mended by waiting is waited for, and told by `troubles`.

        `began` is told once, when listening has begun.

        Raises ListenError: an operator has to mend it first. OSError: an address of this machine cannot be listened at.
        """
        ...

    async def close(self) -> None:
        """Close the connections; nothing can be said any more."""
        ...

    async def troubles(self) -> tuple[Trouble, ...]:
        """Ask the platform what is wrong: token, rights, settings. An empty answer means that nothing is."""
        ...


class Lease(Protocol):
    """A right that one process of all has at a time, such as polling for one bot."""

    def hold(self, name: str) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Wait for a right, hold it, and give it back; the value tells whether it is still held."""
        ...


class ChannelVault(Protocol):
    """What an adapter must keep for all processes and over restarts, such as tokens: encrypted, each under a name.

    Names are opaque, and stand in the store as they are; values do not. A time is in seconds, None for ever. Every
    method raises VaultError: the store does not answer, or what it holds cannot be read with the keys of this
    installation.
    """

    async def get(self, name: str) -> bytes | None:
        """Return what is kept, None if nothing is or its time is over."""
        ...

    async def put(self, name: str, value: bytes, seconds: float | None = None) -> None:
        """Keep a value, in place of what was kept there before."""
        ...

    async def swap(self, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None) -> bool:
        """Put `new` in the place of `old` and say whether that was there; None stands for nothing kept.

        Of all who swap the same, in whatever process, one is told so.
        """
        ...

    async def delete(self, name: str) -> None:
        """Keep nothing there any more."""
        ...

    async def names(self, prefix: str) -> tuple[str, ...]:
        """Return the names that begin so and under which something is kept, sorted."""
        ...
