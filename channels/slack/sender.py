"""Sending on Slack: messages in order, previews of unfinished texts, texts for one person alone, Homes.

Nothing is sent twice by itself: a message that Slack may have taken is looked for, and reported as ambiguous if it is
not found. A text for a thread never appears outside it. A text in several messages that Slack stops in the middle with
a wait goes on where it was stopped, when it is sent again. A text whose file Slack does not take is sent as messages.
`ThreadStatus` is the line below a thread that shows an activity, such as "is thinking…". Slack takes it away at the
next message there, or after two minutes.

A preview is a message that is edited. Slack's own streams are not used: they append Markdown, in which Slack itself
reads mentions and makes links, with no way to turn that off. Appended text cannot be taken back either.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import anyio

from channels.begun_sends import BegunSends
from channels.messages import Address, Outbound, OutboundKind, Signal
from channels.port import (
    AmbiguousSendError,
    BusyChannelError,
    ChannelError,
    FileRefusedError,
    FixedMessageError,
    GoneError,
)
from channels.previews import PreviewCalls, PreviewPace, Previews
from channels.slack.clients import Clients
from channels.slack.errors import FAILURES, code
from channels.slack.render import CUT, SlackMessage, SlackMessages, compose, spelled
from channels.slack.web_api import MessageCalls, MessageMark, SlackPlace, key_of, place_of, remember

_SHOWN: Final = MappingProxyType(
    {
        Signal.WORKING: "is thinking…",
        Signal.READING: "is reading…",
        Signal.WRITING: "is writing…",
        Signal.DONE: "",
    }
)
_PASSING: Final = frozenset({"", "ratelimited", "internal_error", "fatal_error", "service_unavailable"})
"""Errors that say nothing about the place; after any other one Slack is not asked there again."""


RENEWED: Final = 60.0
"""Seconds after which a status is shown again, before Slack takes it away."""


class ThreadStatus:
    """Shows it in threads, where Slack allows that, again after `renewed` seconds if it still goes on."""

    def __init__(self, clients: Clients, renewed: float = RENEWED) -> None:
        self._clients = clients
        self._renewed = renewed
        self._shown: dict[SlackPlace, tuple[Signal, float]] = {}
        self._refused: dict[tuple[str, str], None] = {}

    async def show(self, place: SlackPlace, signal: Signal) -> None:
        """Show a status, or with DONE none; a failure is ignored."""
        if not place.thread or place.home or place.only or (place.team, place.channel) in self._refused:
            return
        now, shown = anyio.current_time(), self._shown.get(place)
        if signal is Signal.STILL:
            if shown is None or now < shown[1] + self._renewed:
                return
            signal = shown[0]
            self._shown[place] = (signal, now)
            await self._put(place, signal)
            if place not in self._shown:
                # It ended meanwhile, and nobody would take this away.
                await self._put(place, Signal.DONE)
        elif signal is not Signal.DONE:
            if await self._put(place, signal):
                remember(self._shown, place, (signal, now))
        elif self._shown.pop(place, None) is not None:
            await self._put(place, signal)

    async def _put(self, place: SlackPlace, signal: Signal) -> bool:
        """Have Slack show it, and return whether it does."""
        try:
            client = await self._clients.of(place.team)
            await client.assistant_threads_setStatus(
                channel_id=place.channel, thread_ts=place.thread, status=_SHOWN[signal]
            )
        except ChannelError:
            return False
        except FAILURES as error:
            if code(error) not in _PASSING:
                remember(self._refused, (place.team, place.channel), None)
            return False
        return True


_AT_ONCE: Final = 2_000
"""Up to this many characters are rendered on the spot, which takes less than a switch of threads is worth."""
_SPELLED: Final = " in messages"
PACE: Final = 1.3
"""Seconds between two edits of previews in a workspace, where Slack takes fifty a minute and answers need some."""


class SlackSender:
    """Speaks in the workspaces that `clients` has clients of. `begun` are the texts that were stopped in the middle.

    `commands` are the names of those that `!` stands before. Edits of previews are at least `pace` seconds apart,
    and a status is shown again after `renewed` seconds.
    """

    def __init__(
        self,
        clients: Clients,
        begun: BegunSends,
        commands: Collection[str] = (),
        *,
        pace: float = PACE,
        renewed: float = RENEWED,
    ) -> None:
        self._begun = begun
        self._commands = commands
        self._calls = MessageCalls(clients)
        self._status = ThreadStatus(clients, renewed)
        self._previews = Previews(
            PreviewCalls(self._first, self._begin, self._update, self._end),
            PreviewPace(lambda address: address.workspace, pace, ends_while_waiting=True),
        )

    async def send(self, outbound: Outbound) -> str:
        """Say it. Returns and raises as `Channel.send`."""
        composed = await self._composed(outbound)
        addressed = place_of(outbound.address)
        if addressed.home:
            return await self._publish(composed, addressed)
        if outbound.replaces:
            return await self._replace(outbound, composed)
        if outbound.kind is OutboundKind.QUESTION:
            # The user who is asked would see that the bot is thinking, and wait.
            await self._status.show(await self._there(addressed), Signal.DONE)
        place = await self._place(addressed, file=bool(composed.file))
        if outbound.repeated and not place.only:
            found = await self._calls.find(place, MessageMark(key_of(outbound), 0, 0))
            if found:
                return _receipt(place, found)
        return await self._say(outbound, composed, place)

    async def preview(self, outbound: Outbound) -> None:
        """Show a text as far as it is written. Raises ChannelError: it was not shown."""
        place = place_of(outbound.address)
        if place.only or place.home:
            raise ChannelError("a message for one person has no preview")
        await self._previews.show(outbound)

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show an activity; the end of it takes back a remaining preview."""
        if address.thread:
            with suppress(ChannelError):
                await self._status.show(await self._there(place_of(address)), signal)
        if signal is Signal.DONE:
            with suppress(ChannelError):
                await self._previews.end(address)

    async def _composed(self, outbound: Outbound) -> SlackMessages:
        if len(outbound.text) <= _AT_ONCE:
            return compose(outbound, self._commands)
        return await asyncio.to_thread(compose, outbound, self._commands)

    async def _first(self, outbound: Outbound) -> SlackMessage:
        return (await self._composed(outbound)).sheets[0]

    async def _begin(self, outbound: Outbound, sheet: SlackMessage) -> str:
        place = await self._place(place_of(outbound.address), file=False)
        mark = MessageMark(key_of(outbound, preview=True), 1, 1)
        return _receipt(place, await self._calls.show(place, sheet, mark))

    async def _update(self, address: Address, receipt: str, sheet: SlackMessage) -> str:
        await self._calls.change(*_located(address, receipt), sheet)
        return receipt

    async def _end(self, address: Address, receipt: str) -> None:
        await self._calls.take_back(*_located(address, receipt))

    async def _publish(self, composed: SlackMessages, place: SlackPlace) -> str:
        """Show it as a user's Home, in place of the old content; of a long text only the beginning is shown."""
        sheets = (*composed.sheets, CUT) if composed.file else composed.sheets
        await self._calls.publish(place, [block for sheet in sheets for block in sheet.blocks])
        return ""

    async def _replace(self, outbound: Outbound, composed: SlackMessages) -> str:
        """Let a text stand in the place of a message; one that is gone stays gone.

        It bears the mark of the new text. With the old one, a question that is asked again would be found here, where
        its buttons are gone, and nobody could answer it.
        """
        sheet, *others = composed.sheets
        if composed.file or others:
            raise ChannelError("one message cannot hold it")
        mark = MessageMark(key_of(outbound), 1, 1)
        await self._calls.change(*_located(outbound.address, outbound.replaces), sheet, mark)
        return outbound.replaces

    async def _place(self, place: SlackPlace, *, file: bool) -> SlackPlace:
        """Return the place to send to: for one person their own conversation, or a message hidden from others."""
        place = await self._there(place)
        if not place.only or not (place.direct or file):
            return place
        # A file cannot be hidden in a channel.
        own = await self._own(place)
        if place.direct and own.channel != place.channel:
            raise ChannelError("the recipient does not read there")
        return replace(place, only="") if place.direct else own

    async def _there(self, place: SlackPlace) -> SlackPlace:
        """Return a place by the name of its conversation, where it is named by an account."""
        if not place.account or place.home:
            return place
        return replace(place, channel=await self._calls.conversation(place.team, place.channel))

    async def _own(self, place: SlackPlace) -> SlackPlace:
        """Return the conversation with the one who alone may see something."""
        try:
            return SlackPlace(place.team, await self._calls.conversation(place.team, place.only))
        except GoneError:
            # The chat that was addressed is not gone.
            raise ChannelError("the recipient has no private chat with the bot") from None

    async def _say(self, outbound: Outbound, composed: SlackMessages, place: SlackPlace) -> str:
        try:
            return await self._in_order(outbound, composed, place, outbound.key)
        except FileRefusedError:
            text = await asyncio.to_thread(spelled, outbound, self._commands)
            # Another key: where it was stopped is counted in its own messages.
            return await self._in_order(outbound, text, place, f"{outbound.key}{_SPELLED}")

    async def _in_order(self, outbound: Outbound, composed: SlackMessages, place: SlackPlace, key: str) -> str:
        text = replace(outbound, key=key)
        steps = len(composed.sheets) + bool(composed.file)
        # Before the line above it, so that a file that Slack does not take is not announced.
        file = await self._calls.upload(place.team, composed.file, composed.name) if composed.file else ""
        begun, receipt = await self._begun.shown(text, steps)
        for number in range(begun, steps):
            try:
                if number == len(composed.sheets):
                    await self._calls.share(place, file, composed.name)
                else:
                    counted = MessageMark(key_of(outbound), number + 1, steps)
                    receipt = await self._one(outbound, composed.sheets[number], place, counted)
            except BusyChannelError:
                await self._begun.stopped(text, number, receipt)
                raise
            except (AmbiguousSendError, GoneError, FileRefusedError):
                raise
            except ChannelError:
                if number:
                    raise AmbiguousSendError("only a part of it was shown") from None
                raise
        return receipt

    async def _one(self, outbound: Outbound, sheet: SlackMessage, place: SlackPlace, mark: MessageMark) -> str:
        """Say one message, the first in the place of its preview."""
        if place.only:
            return await self._aside(sheet, place, mark)
        address = outbound.address
        shown = self._previews.standing(address) if mark.number == 1 else None
        if shown is None or not shown.name:
            return _receipt(place, await self._calls.show(place, sheet, mark))
        if shown.key != outbound.key or outbound.repeated:
            with suppress(ChannelError):
                await self._previews.end(address)
            return _receipt(place, await self._calls.show(place, sheet, mark))
        receipt = shown.name
        try:
            await self._calls.change(*_located(address, receipt), sheet, mark)
        except FixedMessageError:
            receipt = _receipt(place, await self._calls.show(place, sheet, mark))
        self._previews.forget(address)
        return receipt

    async def _aside(self, sheet: SlackMessage, place: SlackPlace, mark: MessageMark) -> str:
        """Say one message to one alone: in the channel, hidden there, or in private where the bot is not in that."""
        try:
            await self._calls.whisper(place, sheet)
        except GoneError:
            own = await self._own(place)
            return _receipt(own, await self._calls.show(own, sheet, mark))
        return ""


def _receipt(place: SlackPlace, named: str) -> str:
    """Return the receipt of a message: its channel may differ from the addressed one."""
    return f"{place.channel}/{named}"


def _located(address: Address, receipt: str) -> tuple[SlackPlace, str]:
    """Return where a message is, and its time stamp."""
    channel, _, named = receipt.partition("/")
    return SlackPlace(address.workspace, channel), named
