"""Sending in chats: messages in order, edited previews of unfinished texts, and texts for one person alone.

Nothing is sent twice by itself: a message that Telegram may have taken is reported as ambiguous. A text in several
messages that Telegram stops in the middle with a wait goes on where it was stopped, when it is sent again. A text whose
file a chat does not take is sent as messages.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import anyio
from telegram import InlineKeyboardMarkup, LinkPreviewOptions, MessageEntity
from telegram.error import BadRequest, ChatMigrated, RetryAfter, TelegramError

from channels.begun_sends import BegunSends
from channels.messages import Address, Outbound, Signal
from channels.port import AmbiguousSendError, BusyChannelError, ChannelError, FileRefusedError, GoneError
from channels.previews import PreviewCalls, PreviewPace, Previews
from channels.telegram import updates
from channels.telegram.errors import MovedError, failure, refuses_file, seconds
from channels.telegram.render import Entity, TelegramMessages, TelegramPart, compose, spelled

if TYPE_CHECKING:
    from telegram import Bot, Message

_NO_PREVIEW: Final = LinkPreviewOptions(is_disabled=True)
_SPELLED: Final = " in messages"
_AT_ONCE: Final = 2_000
"""Up to this many characters are rendered on the spot, which takes less than a switch of threads is worth."""


@dataclass(frozen=True, slots=True)
class TelegramPlace:
    """Where a message goes: a chat, its topic, and the one member who alone may see it."""

    chat: int
    thread: int | None = None
    only: int | None = None


class TelegramSender:
    """Speaks with `bot`, at addresses as Telegram calls them now.

    That it is typing is shown again after `typing` seconds. `begun` are the texts that were stopped in the middle.
    """

    def __init__(self, bot: "Bot", typing: float, begun: BegunSends) -> None:
        self._bot = bot
        self._typing = typing
        self._begun = begun
        self._previews = Previews(
            PreviewCalls(self._first, self._begin, self._update, self._end),
            PreviewPace(lambda address: str(address.place)),
        )
        self._typed: dict[Address, float] = {}
        self._knows_ephemeral: bool | None = None

    async def send(self, outbound: Outbound) -> str:
        """Say it. Returns and raises as `Channel.send`."""
        place = _place(outbound.address)
        composed = await _composed(outbound)
        if outbound.replaces:
            return await self._replace(outbound, composed)
        if outbound.address.recipient:
            return await self._aside(outbound, composed, place)
        return await self._say(outbound, composed, place)

    async def preview(self, outbound: Outbound) -> None:
        """Show a text as far as it is written. Raises ChannelError: it was not shown."""
        _place(outbound.address)
        if outbound.address.recipient:
            raise ChannelError("a message for one person has no preview")
        await self._previews.show(outbound)

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show an activity; a failure is ignored."""
        if signal is Signal.DONE:
            await self._previews.end(address)
        elif not address.recipient and self._may_type(address, signal):
            with suppress(TelegramError, ChannelError):
                place = _place(address)
                await self._bot.send_chat_action(place.chat, "typing", message_thread_id=place.thread)

    def _may_type(self, address: Address, signal: Signal) -> bool:
        """Tell whether to show it now: Telegram asked for no wait, and stopped showing it by itself."""
        now = anyio.current_time()
        if signal is Signal.STILL and now < self._typed.get(address, 0.0) + self._typing:
            return False
        self._typed = {one: at for one, at in self._typed.items() if at + self._typing > now} | {address: now}
        return self._previews.left(address) == 0

    async def _first(self, outbound: Outbound) -> TelegramPart:
        return (await _composed(outbound)).parts[0]

    async def _begin(self, outbound: Outbound, part: TelegramPart) -> str:
        return await self._drawn(outbound.address, part, None)

    async def _update(self, address: Address, name: str, part: TelegramPart) -> str:
        return await self._drawn(address, part, int(name))

    async def _drawn(self, address: Address, part: TelegramPart, old: int | None) -> str:
        try:
            return str(await self._part(_place(address), part, None, old))
        except TelegramError as error:
            raise await self._failure(error, address) from None

    async def _end(self, address: Address, name: str) -> None:
        with suppress(TelegramError):
            await self._bot.delete_message(_place(address).chat, int(name))

    async def _replace(self, outbound: Outbound, composed: TelegramMessages) -> str:
        """Let a text stand in the place of a message; one that is gone stays gone."""
        chat, _, message = outbound.replaces.partition("/")
        part, *others = composed.parts
        if composed.file or others:
            raise ChannelError("one message cannot hold it")
        try:
            await self._edit(TelegramPlace(_number(chat)), part, composed.keyboard, _number(message))
        except TelegramError as error:
            raise await self._failure(error, outbound.address) from None
        return outbound.replaces

    async def _edit(
        self, place: TelegramPlace, part: TelegramPart, keyboard: InlineKeyboardMarkup | None, old: int
    ) -> None:
        """Edit a message, or the caption of a file."""
        try:
            await self._put(place, part, keyboard, old)
        except BadRequest as error:
            told = error.message.lower()
            if "no text in the message" in told:
                await self._bot.edit_message_caption(place.chat, old, caption=part.plain, reply_markup=keyboard)
            elif "entit" in told:
                await self._put(place, _plain(part), keyboard, old)
            elif "not modified" not in told:
                raise

    async def _aside(self, outbound: Outbound, composed: TelegramMessages, place: TelegramPlace) -> str:
        """Say it to one alone: in the group if the API can hide it there, in private otherwise, never to the group."""
        alone = _number(outbound.address.recipient)
        if place.chat < 0 and not composed.file and await self._ephemeral(place.chat):
            try:
                return await self._say(outbound, composed, replace(place, only=alone))
            except (AmbiguousSendError, BusyChannelError):
                raise
            except ChannelError:
                pass  # not a member any more, perhaps; the private chat is still there
        try:
            return await self._say(outbound, composed, TelegramPlace(alone))
        except GoneError:
            # The chat that was addressed is not gone.
            raise ChannelError("the recipient has no private chat with the bot") from None

    async def _ephemeral(self, chat: int) -> bool:
        """Tell whether the API knows messages for one alone; one that does not would ignore it and show them to all.

        It is asked with markup that is always refused, so that nothing can be shown, for an account that does not
        exist: only an API that knows the parameter can complain about it.
        """
        if self._knows_ephemeral is None:
            try:
                await self._bot.send_message(chat, "<b", parse_mode="HTML", api_kwargs={"receiver_user_id": 1})
            except BadRequest as error:
                self._knows_ephemeral = "participant" in error.message.lower()
            except TelegramError:
                return False
            else:
                self._knows_ephemeral = False
        return self._knows_ephemeral

    async def _say(self, outbound: Outbound, composed: TelegramMessages, place: TelegramPlace) -> str:
        try:
            return await self._in_order(outbound, composed, place)
        except FileRefusedError:
            text = await asyncio.to_thread(spelled, outbound)
            # Another key: where it was stopped is counted in its own messages.
            return await self._in_order(replace(outbound, key=f"{outbound.key}{_SPELLED}"), text, place)

    async def _in_order(self, outbound: Outbound, composed: TelegramMessages, place: TelegramPlace) -> str:
        address = outbound.address
        begun, _ = await self._begun.shown(outbound, len(composed.parts))
        shown = self._previews.standing(address)
        editing = None
        if shown is not None and shown.key == outbound.key:
            if outbound.repeated or composed.file:
                await self._previews.end(address)
            else:
                self._previews.forget(address)
                editing = int(shown.name) if shown.name else None
        last = 0
        for number, part in enumerate(composed.parts):
            if number < begun:
                continue
            keyboard = composed.keyboard if number == len(composed.parts) - 1 else None
            try:
                if composed.file:
                    last = await self._document(place, composed, part)
                else:
                    last = await self._part(place, part, keyboard, None if number else editing)
            except TelegramError as error:
                failed = await self._failure(error, address)
                if isinstance(failed, BusyChannelError):
                    await self._begun.stopped(outbound, number)
                    if shown is not None and editing is not None and number == 0:
                        self._previews.keep(address, shown)
                elif number and not isinstance(failed, AmbiguousSendError | GoneError):
                    failed = AmbiguousSendError("only a part of it was shown")
                raise failed from None
        # A message for one person alone has no number by which it could be edited as others are.
        return f"{place.chat}/{last}" if place.only is None else ""

    async def _part(
        self, place: TelegramPlace, part: TelegramPart, keyboard: InlineKeyboardMarkup | None, old: int | None
    ) -> int:
        """Show a part, in the place of an old message if there is one; return the number of the message."""
        try:
            return await self._put(place, part, keyboard, old)
        except BadRequest as error:
            told = error.message.lower()
            if old is not None and "not modified" in told:
                return old
            if "entit" in told:
                return await self._put(place, _plain(part), keyboard, old)
            if old is not None and ("message to edit" in told or "can't be edited" in told):
                return await self._part(place, part, keyboard, None)
            raise

    async def _put(
        self,
        place: TelegramPlace,
        part: TelegramPart,
        keyboard: InlineKeyboardMarkup | None,
        old: int | None,
    ) -> int:
        formatted = _entities(part.entities)
        if old is not None:
            await self._bot.edit_message_text(
                part.text, place.chat, old, entities=formatted, link_preview_options=_NO_PREVIEW, reply_markup=keyboard
            )
            return old
        only: dict[str, Any] = {"receiver_user_id": place.only} if place.only is not None else {}
        sent = await self._bot.send_message(
            place.chat,
            part.text,
            entities=formatted,
            link_preview_options=_NO_PREVIEW,
            reply_markup=keyboard,
            message_thread_id=place.thread,
            api_kwargs=only,
        )
        if only and "ephemeral_message_id" not in sent.api_kwargs:
            await self._shown_to_all(sent)
        return sent.message_id

    async def _shown_to_all(self, sent: "Message") -> None:
        """Take back a message that was to be hidden; the API no longer supports hidden ones."""
        self._knows_ephemeral = False
        with suppress(TelegramError):
            await self._bot.delete_message(sent.chat_id, sent.message_id)
        raise AmbiguousSendError("a message for one person was shown to all for a moment")

    async def _document(self, place: TelegramPlace, composed: TelegramMessages, lead: TelegramPart) -> int:
        try:
            return await self._upload(place, composed, lead)
        except TelegramError as error:
            unreadable = isinstance(error, BadRequest) and lead.entities and "entit" in error.message.lower()
            if not unreadable and refuses_file(error):
                raise FileRefusedError from None
            if not unreadable:
                raise
        return await self._upload(place, composed, _plain(lead))

    async def _upload(self, place: TelegramPlace, composed: TelegramMessages, lead: TelegramPart) -> int:
        sent = await self._bot.send_document(
            place.chat,
            composed.file,
            filename=composed.name,
            caption=lead.text,
            caption_entities=_entities(lead.entities),
            reply_markup=composed.keyboard,
            message_thread_id=place.thread,
        )
        return sent.message_id

    async def _failure(self, error: TelegramError, address: Address) -> ChannelError:
        """Return the error to raise, after noting the facts that a failure tells of the chat."""
        if isinstance(error, ChatMigrated):
            return MovedError(str(error.new_chat_id))
        if isinstance(error, RetryAfter):
            self._previews.wait(address, seconds(error))
        return failure(error)


async def _composed(outbound: Outbound) -> TelegramMessages:
    if len(outbound.text) <= _AT_ONCE:
        return compose(outbound)
    return await asyncio.to_thread(compose, outbound)


def _plain(part: TelegramPart) -> TelegramPart:
    """Return a part without its formatting."""
    return TelegramPart(part.plain, (), part.plain)


def _entities(entities: tuple[Entity, ...]) -> list[MessageEntity]:
    return [
        MessageEntity(one.kind, one.offset, one.length, url=one.url or None, language=one.language or None)
        for one in entities
    ]


def _place(address: Address) -> TelegramPlace:
    """Return where an address is.

    Raises ChannelError: there is no such place on Telegram.
    """
    if address.channel != updates.NAME or address.workspace:
        raise ChannelError("the address is not one of Telegram's")
    thread = _number(address.thread) if address.thread else None
    return TelegramPlace(_number(address.chat), None if thread == updates.GENERAL else thread)


def _number(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        raise ChannelError("the address is not one of Telegram's")
    return int(text)
