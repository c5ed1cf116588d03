"""Saying things on Slack: messages in order, previews of what is still being written, what is for one alone, Homes.

Nothing is said twice by itself: what Slack may have taken is reported as ambiguous where it is not found. What is for
a thread never appears outside it. A text in several messages that Slack stops in the middle with a wait goes on where
it was stopped, when it is sent again. A text whose file Slack does not take is said in messages.

A preview is a message that is edited. Slack's own streams are not used: they take Markdown to append, in which Slack
itself reads mentions and makes links, with no way to tell it not to; and nothing appended can be taken back.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import anyio

from channels.base import AmbiguousSendError, BusyChannelError, ChannelError, GoneError
from channels.message import Address, Outbound, OutboundKind, Signal
from channels.slack.clients import Clients
from channels.slack.letter import CUT, Letter, Sheet, compose, spelled
from channels.slack.place import Place, place_of
from channels.slack.post import FileRefusedError, FixedError, Post, remember
from channels.slack.status import RENEWED, Status
from channels.slack.traces import Mark, key_of

_AT_ONCE: Final = 2_000
"""Up to this many characters are rendered on the spot, which takes less than a switch of threads is worth."""
_SPELLED: Final = " in messages"
PACE: Final = 1.3
"""Seconds between two edits of previews in a workspace, where Slack takes fifty a minute and answers need some."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A preview as it stands in a chat; without a name nobody knows whether it does."""

    key: str
    place: Place
    named: str
    sheet: Sheet


class Speaker:
    """Speaks in the workspaces that `clients` has clients of.

    `commands` are the names of those that `!` stands before. Edits of previews are at least `pace` seconds apart,
    and a status is shown again after `renewed` seconds.
    """

    def __init__(
        self, clients: Clients, commands: Collection[str] = (), *, pace: float = PACE, renewed: float = RENEWED
    ) -> None:
        self._commands = commands
        self._pace = pace
        self._post = Post(clients)
        self._status = Status(clients, renewed)
        self._done: dict[tuple[Address, str, bool], tuple[int, str]] = {}
        self._previews: dict[Address, _Shown] = {}
        self._next: dict[str, float] = {}
        self._quiet: dict[str, float] = {}

    async def send(self, outbound: Outbound) -> str:
        """Say it. Returns and raises as `Channel.send`."""
        letter = await self._composed(outbound)
        addressed = place_of(outbound.address)
        if addressed.home:
            return await self._publish(letter, addressed)
        if outbound.replaces:
            return await self._replace(outbound, letter)
        if outbound.kind is OutboundKind.QUESTION:
            # Whoever is asked would see that the bot is thinking, and wait.
            await self._status.show(await self._there(addressed), Signal.DONE)
        place = await self._place(addressed, file=bool(letter.file))
        if outbound.repeated and not place.only:
            found = await self._post.find(place, Mark(key_of(outbound), 0, 0))
            if found:
                return _receipt(place, found)
        return await self._say(outbound, letter, place)

    async def preview(self, outbound: Outbound) -> None:
        """Show a text as far as it is written. Raises ChannelError: it was not shown."""
        address, place = outbound.address, place_of(outbound.address)
        if place.only or place.home:
            raise ChannelError("what is for one alone has no preview")
        shown = self._previews.get(address)
        if not outbound.text or (shown is not None and shown.key != outbound.key):
            await self._take_back(address)
            shown = None
        if outbound.text and self._has_room(place.team):
            place = await self._place(place, file=False)
            sheet = (await self._composed(outbound)).sheets[0]
            if shown is None or (shown.named and shown.sheet != sheet):
                await self._draft(outbound, place, sheet, shown)

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that something is going on; the end takes back what is left of a preview."""
        if address.thread:
            with suppress(ChannelError):
                await self._status.show(await self._there(place_of(address)), signal)
        if signal is Signal.DONE:
            with suppress(ChannelError):
                await self._take_back(address)

    async def _composed(self, outbound: Outbound) -> Letter:
        if len(outbound.text) <= _AT_ONCE:
            return compose(outbound, self._commands)
        return await asyncio.to_thread(compose, outbound, self._commands)

    def _has_room(self, team: str) -> bool:
        """Tell whether an edit may be made now; the next one shows more.

        Raises BusyChannelError: Slack asked to wait.
        """
        now = anyio.current_time()
        wait = self._quiet.get(team, 0.0) - now
        if wait > 0:
            raise BusyChannelError(wait)
        if now < self._next.get(team, 0.0):
            return False
        self._next[team] = now + self._pace
        return True

    async def _draft(self, outbound: Outbound, place: Place, sheet: Sheet, shown: _Shown | None) -> None:
        named = ""
        try:
            if shown is None:
                named = await self._post.show(place, sheet, Mark(key_of(outbound, preview=True), 1, 1))
            else:
                named = shown.named
                await self._post.change(place, named, sheet)
        except BusyChannelError as error:
            self._quiet[place.team] = anyio.current_time() + error.seconds
            raise
        except AmbiguousSendError:
            # Another one might stand beside it.
            self._previews[outbound.address] = _Shown(outbound.key, place, named, sheet)
            raise
        except FixedError:
            self._previews.pop(outbound.address, None)
            raise
        self._previews[outbound.address] = _Shown(outbound.key, place, named, sheet)

    async def _take_back(self, address: Address) -> None:
        shown = self._previews.get(address)
        if shown is not None:
            if shown.named:
                await self._post.take_back(shown.place, shown.named)
            self._previews.pop(address, None)

    async def _publish(self, letter: Letter, place: Place) -> str:
        """Show it as somebody's Home, in the place of what was there; what is too long is only begun."""
        sheets = (*letter.sheets, CUT) if letter.file else letter.sheets
        await self._post.publish(place, [block for sheet in sheets for block in sheet.blocks])
        return ""

    async def _replace(self, outbound: Outbound, letter: Letter) -> str:
        """Let a text stand in the place of a message; one that is gone stays gone."""
        channel, _, named = outbound.replaces.partition("/")
        sheet, *others = letter.sheets
        if letter.file or others:
            raise ChannelError("one message cannot hold it")
        await self._post.change(Place(outbound.address.workspace, channel), named, sheet)
        return outbound.replaces

    async def _place(self, place: Place, *, file: bool) -> Place:
        """Return where to say something: what is for one alone in their own conversation, or hidden from the others."""
        place = await self._there(place)
        if not place.only or not (place.direct or file):
            return place
        # A file cannot be hidden in a channel.
        own = await self._own(place)
        if place.direct and own.channel != place.channel:
            raise ChannelError("whom it is for does not read there")
        return replace(place, only="") if place.direct else own

    async def _there(self, place: Place) -> Place:
        """Return a place by the name of its conversation, where it is named by an account."""
        if not place.account or place.home:
            return place
        return replace(place, channel=await self._post.conversation(place.team, place.channel))

    async def _own(self, place: Place) -> Place:
        """Return the conversation with the one who alone may see something."""
        try:
            return Place(place.team, await self._post.conversation(place.team, place.only))
        except GoneError:
            # The chat that was addressed is not gone.
            raise ChannelError("whom it is for cannot be spoken to in private") from None

    async def _say(self, outbound: Outbound, letter: Letter, place: Place) -> str:
        try:
            return await self._in_order(outbound, letter, place, outbound.key)
        except FileRefusedError:
            text = await asyncio.to_thread(spelled, outbound, self._commands)
            # Another key: where it was stopped is counted in its own messages.
            return await self._in_order(outbound, text, place, f"{outbound.key}{_SPELLED}")

    async def _in_order(self, outbound: Outbound, letter: Letter, place: Place, key: str) -> str:
        mark = (outbound.address, key, outbound.repeated)
        steps = len(letter.sheets) + bool(letter.file)
        # Before the line above it, so that a file that Slack does not take is not announced.
        file = await self._post.upload(place.team, letter.file) if letter.file else ""
        begun, receipt = self._done.pop(mark, (0, ""))
        for number in range(begun, steps):
            try:
                if number == len(letter.sheets):
                    await self._post.share(place, file)
                else:
                    counted = Mark(key_of(outbound), number + 1, steps)
                    receipt = await self._one(outbound, letter.sheets[number], place, counted)
            except BusyChannelError:
                remember(self._done, mark, (number, receipt))
                raise
            except (AmbiguousSendError, GoneError, FileRefusedError):
                raise
            except ChannelError:
                if number:
                    raise AmbiguousSendError("only a part of it was shown") from None
                raise
        return receipt

    async def _one(self, outbound: Outbound, sheet: Sheet, place: Place, mark: Mark) -> str:
        """Say one message, the first in the place of its preview."""
        if place.only:
            return await self._aside(sheet, place, mark)
        shown = self._previews.get(outbound.address) if mark.number == 1 else None
        if shown is None or not shown.named:
            return _receipt(place, await self._post.show(place, sheet, mark))
        if shown.key != outbound.key or outbound.repeated:
            with suppress(ChannelError):
                await self._take_back(outbound.address)
            return _receipt(place, await self._post.show(place, sheet, mark))
        named = shown.named
        try:
            await self._post.change(shown.place, named, sheet, mark)
        except FixedError:
            named = await self._post.show(place, sheet, mark)
        del self._previews[outbound.address]
        return _receipt(place, named)

    async def _aside(self, sheet: Sheet, place: Place, mark: Mark) -> str:
        """Say one message to one alone: in the channel, hidden there, or in private where the bot is not in that."""
        try:
            await self._post.whisper(place, sheet)
        except GoneError:
            own = await self._own(place)
            return _receipt(own, await self._post.show(own, sheet, mark))
        return ""


def _receipt(place: Place, named: str) -> str:
    """Return what a message is called: where it is may be another place than where it was addressed to."""
    return f"{place.channel}/{named}"
