"""Previews: a text that is shown while it is written, as a message that is edited until the answer stands in its place.

Timing and state are here, for every platform; a platform gives the operations and the scope of its limits. No edit is
made that changes nothing, that comes too soon after the last, or while the platform asks to wait: the next one shows
more. Where a preview may exist, no second one is put beside it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

from channels.messages import Address, Outbound
from channels.port import AmbiguousSendError, BusyChannelError, FixedMessageError

Form = TypeVar("Form")
"""A message as the platform shows it; equal ones look the same."""


@dataclass(frozen=True, slots=True)
class PreviewCalls(Generic[Form]):
    """A platform's operations for previews. Each operation raises ChannelError."""

    first: Callable[[Outbound], Awaitable[Form]]
    """Return the first message of a text."""
    begin: Callable[[Outbound, Form], Awaitable[str]]
    """Show a message of an outbound text, and return its name."""
    update: Callable[[Address, str, Form], Awaitable[str]]
    """Change the message of a name; return its name, which is another one where a new message stands in its place.

    Raises FixedMessageError: it is gone, or too old.
    """
    end: Callable[[Address, str], Awaitable[None]]
    """Take the message of a name back."""


@dataclass(frozen=True, slots=True)
class PreviewPace:
    """A platform's limits for previews."""

    scope: Callable[[Address], str]
    """Return the scope of an address.

    The limits hold for each scope, and a wait that the platform asks for stops all of its edits.
    """
    seconds: float = 0.0
    """The least time between two edits of a scope."""
    ends_while_waiting: bool = False
    """A preview may be taken back while the platform asks to wait."""


@dataclass(frozen=True, slots=True)
class ShownPreview(Generic[Form]):
    """A preview as it stands in a chat: the key of its text, and its message. Without a name it may not be there."""

    key: str
    name: str
    form: Form


class Previews(Generic[Form]):
    """The previews of one adapter, at most one at an address."""

    def __init__(self, calls: PreviewCalls[Form], pace: PreviewPace) -> None:
        self._calls = calls
        self._pace = pace
        self._shown: dict[Address, ShownPreview[Form]] = {}
        self._next: dict[str, float] = {}
        self._waits: dict[str, float] = {}

    async def show(self, outbound: Outbound) -> None:
        """Show a text that is still being written, in place of the preview shown before; an empty one ends that.

        Raises:
            ChannelError: it was not shown.
            BusyChannelError: the platform asks to wait.
        """
        address = outbound.address
        if not self._pace.ends_while_waiting:
            self._check_wait(address)
        shown = self._shown.get(address)
        if not outbound.text or (shown is not None and shown.key != outbound.key):
            await self.end(address)
            shown = None
        if outbound.text and self._has_room(address):
            form = await self._calls.first(outbound)
            if shown is None or (shown.name and shown.form != form):
                await self._draw(outbound, form, shown)

    async def end(self, address: Address) -> None:
        """Take back the preview at an address. Raises ChannelError: it may still be there, and is still known."""
        shown = self._shown.pop(address, None)
        if shown is not None and shown.name:
            try:
                await self._calls.end(address, shown.name)
            except BaseException:
                self.keep(address, shown)
                raise

    def standing(self, address: Address) -> ShownPreview[Form] | None:
        """Return the preview that is shown at an address."""
        return self._shown.get(address)

    def forget(self, address: Address) -> None:
        """Let the message at an address stay: it is no longer a preview."""
        self._shown.pop(address, None)

    def keep(self, address: Address, shown: ShownPreview[Form]) -> None:
        """Treat a forgotten preview as one again, unless another is shown there by now."""
        self._shown.setdefault(address, shown)

    def wait(self, address: Address, seconds: float) -> None:
        """Take note that the platform asks to wait so many seconds."""
        now = anyio.current_time()
        self._waits = {scope: until for scope, until in self._waits.items() if until > now}
        self._waits[self._pace.scope(address)] = now + seconds

    def left(self, address: Address) -> float:
        """Return how many seconds are left of a wait that the platform asked for, 0 if none."""
        return max(0.0, self._waits.get(self._pace.scope(address), 0.0) - anyio.current_time())

    def _check_wait(self, address: Address) -> None:
        if left := self.left(address):
            raise BusyChannelError(left)

    def _has_room(self, address: Address) -> bool:
        """Tell whether an edit may be made now. Raises BusyChannelError."""
        self._check_wait(address)
        now, scope = anyio.current_time(), self._pace.scope(address)
        if now < self._next.get(scope, 0.0):
            return False
        if self._pace.seconds:
            self._next = {one: at for one, at in self._next.items() if at > now}
            self._next[scope] = now + self._pace.seconds
        return True

    async def _draw(self, outbound: Outbound, form: Form, shown: ShownPreview[Form] | None) -> None:
        """Put a message into the chat, or change the one that is there."""
        address, name = outbound.address, "" if shown is None else shown.name
        try:
            if shown is None:
                name = await self._calls.begin(outbound, form)
            else:
                name = await self._calls.update(address, name, form)
        except BusyChannelError as error:
            self.wait(address, error.seconds)
            raise
        except AmbiguousSendError:
            # Another one might stand beside it.
            self._shown[address] = ShownPreview(outbound.key, name, form)
            raise
        except FixedMessageError:
            self._shown.pop(address, None)
            raise
        self._shown[address] = ShownPreview(outbound.key, name, form)
