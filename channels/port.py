"""The port every adapter implements, the right it may need, and the errors it normalises its platform's to."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from channels.messages import Address, Attachment, Event, Outbound, Signal


class ChannelError(Exception):
    """A send failed for certain; no person saw the text."""


class AmbiguousSendError(ChannelError):
    """The text may have been seen; it is never repeated silently."""


class BusyChannelError(ChannelError):
    """The platform takes nothing more for `seconds`: in that chat, or with `everywhere` from this bot at all."""

    def __init__(self, seconds: float, *, everywhere: bool = False) -> None:
        super().__init__(f"the platform asks to wait {seconds:g} s")
        self.seconds = seconds
        self.everywhere = everywhere


class GoneError(ChannelError):
    """Messages there are no longer possible: the bot was blocked or removed, or the chat or thread is gone."""


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
    """A platform cannot be listened to until an operator mends the fault; `next_step` names the step."""

    def __init__(self, problem: str, next_step: str) -> None:
        super().__init__(problem)
        self.next_step = next_step


class VaultError(ChannelError):
    """The adapter's stored values cannot be read or written now, and the operation that needs them was not done."""


class LostValueError(VaultError):
    """No key of this installation opens the stored value, which was encrypted with another one or put there by others.

    A later attempt fails likewise, until the value is replaced or deleted.
    """


class ReaderKind(StrEnum):
    """A reader's kind, as the platform tells it: of this workspace, its guest, of another workspace, or a program."""

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
    """The readers of an address, now, without this bot.

    `complete` is false when the platform cannot list all readers; `shared` is false for the private chat of one person.
    """

    readers: frozenset[Reader]
    complete: bool
    shared: bool = False

    @staticmethod
    def of(*accounts: str, complete: bool = True, shared: bool = False) -> "Audience":
        """Return an audience of accounts without further facts from the platform."""
        return Audience(frozenset(map(Reader, accounts)), complete, shared)


class Channel(Protocol):
    """The operations of an adapter that the application uses."""

    @property
    def name(self) -> str:
        """The first part of its addresses."""
        ...

    @property
    def marks_repeats(self) -> bool:
        """Whether it can show a text again with a mark that it may have been seen; otherwise it is reported."""
        ...

    @property
    def marks_untrusted(self) -> bool:
        """Whether it shows an `untrusted` text as one from outside; otherwise such a text is not sent there."""
        ...

    async def send(self, outbound: Outbound) -> str:
        """Send a text, and return the platform's name of the message, of several messages the last one.

        Callers do not look into the name; it is empty where the message cannot be changed any more.

        Raises:
            ChannelError: it was certainly not sent.
            AmbiguousSendError: it may have been sent.
        """
        ...

    @property
    def previews(self) -> bool:
        """Whether it can show a text that is still being written; otherwise nothing is shown until it is finished."""
        ...

    async def preview(self, outbound: Outbound) -> None:
        """Show a text that is still being written, in place of the preview shown before.

        An empty text takes the preview back, and so does `Signal.DONE`; a `send` with the same key replaces it.

        Raises:
            ChannelError: it was not shown.
        """
        ...

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show an activity; a failure is ignored."""
        ...

    async def audience(self, address: Address) -> Audience:
        """Return the present readers of the address."""
        ...


Answer = Callable[[], Awaitable[None]]
"""Send the answer to a kept event. It may take long, and delays no other event."""

Receive = Callable[[Event], Awaitable[Answer | None]]
"""Take in an event of a platform: when this returns it is kept, and the platform may be told so.

Returns: the answer that is still to be sent, None if there is none.

Raises an exception: the event could not be kept, so the platform must send it again.
"""


Began = Callable[[], None]
"""Is called when updates can arrive: at the platform's first answer, its greeting, or once it knows our address."""


def untold() -> None:
    """Do nothing when listening begins."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault of an adapter's connection: a sentence, and how to mend it."""

    problem: str
    """The fault, in one sentence."""
    next_step: str = ""
    """The step that mends it, empty if there is none."""
    remark: bool = False
    """The state may be intended."""
    names: bool = False
    """The sentence names other users of the bot, so only some people may read it."""
    sealed: bool = False
    """The sentence tells of sessions that may have read anything."""


@runtime_checkable
class FileSource(Protocol):
    """A source of the files that came with messages."""

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return a file that came with a message, of at most `most` bytes.

        Raises:
            LargeFileError: it is larger, or larger than the platform hands out.
            ChannelError: it cannot be fetched.
        """
        ...


Left = Callable[[tuple[str, ...]], tuple[str, ...]]
"""Takes the commands of a message's buttons, and returns those whose buttons are to stay."""


@runtime_checkable
class ButtonKeeper(Protocol):
    """An adapter that can take away the buttons of a message that was pressed."""

    async def spend(self, press: str, left: Left) -> None:
        """Take away the buttons of the message of a press, besides those that are left; a failure is ignored.

        `press` is the `press` of an `Inbound` whose answer is being sent.
        """
        ...


class Platform(Channel, FileSource, Protocol):
    """An adapter that listens by itself, as all do but the console."""

    async def serve(self, receive: Receive, began: Began = untold) -> None:
        """Connect and listen until cancelled. Temporary faults are waited for, and reported by `troubles`.

        Args:
            receive: takes in each event.
            began: is called once, when listening has begun.

        Raises:
            ListenError: an operator has to mend the fault first.
            OSError: an address of this machine cannot be listened at.
        """
        ...

    async def close(self) -> None:
        """Close the connections; nothing can be sent any more."""
        ...

    async def troubles(self) -> tuple[Trouble, ...]:
        """Check the token, the rights and the settings with the platform, and return the faults."""
        ...


@runtime_checkable
class Probing(Protocol):
    """An adapter that can be asked more than `troubles` asks, which costs calls and may disturb another program."""

    async def probe(self) -> tuple[Trouble, ...]:
        """Ask the platform for faults that only a trial shows. It takes twenty seconds at most."""
        ...

    async def mend(self) -> tuple[str, ...]:
        """Mend faults there that are safe to mend; return a clause for each thing that was done."""
        ...


class Lease(Protocol):
    """A right that one process of all has at a time, such as polling for one bot."""

    def hold(self, name: str) -> AbstractAsyncContextManager[Callable[[], bool]]:
        """Wait for a right, hold it, and give it back; the value tells whether it is still held."""
        ...


class ChannelVault(Protocol):
    """The adapter's stored values, such as tokens, for all processes and over restarts: encrypted, each under a name.

    Names are opaque, and stand in the store as they are; values do not. A time is in seconds, None for ever.

    Every method raises VaultError: the store does not answer, or this installation's keys cannot read the value.
    """

    async def get(self, name: str) -> bytes | None:
        """Return the value of a name, None if there is none or its time is over."""
        ...

    async def put(self, name: str, value: bytes, seconds: float | None = None) -> None:
        """Store a value, in place of the earlier one; `seconds` is its life."""
        ...

    async def swap(self, name: str, old: bytes | None, new: bytes | None, seconds: float | None = None) -> bool:
        """Put `new` in the place of `old` and return whether `old` was there; None stands for no value.

        If several processes swap the same value, exactly one gets True.
        """
        ...

    async def delete(self, name: str) -> None:
        """Keep nothing there any more."""
        ...

    async def names(self, prefix: str) -> tuple[str, ...]:
        """Return the names that begin so and under which something is kept, sorted."""
        ...


@dataclass(frozen=True, slots=True)
class ChannelSetup:
    """The services and settings that a plugin makes its channel with.

    `settings` is its block under `channels.others` in config.yaml, not validated. `environment` holds its tokens.
    `now_ms` gives the time in milliseconds since 1970. `commands` are those that every member may give, each with a
    sentence of help, for menus.
    """

    settings: Mapping[str, object]
    environment: Mapping[str, str]
    lease: Lease
    vault: ChannelVault
    now_ms: Callable[[], int]
    commands: tuple[tuple[str, str], ...]
