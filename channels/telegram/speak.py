"""Saying things in chats: messages in order, edited previews of what is still being written, and what is for one alone.

Nothing is said twice by itself: what Telegram may have taken is reported as ambiguous. A text in several messages that
Telegram stops in the middle with a wait goes on where it was stopped, when it is sent again. A text whose file a chat
does not take is said in messages.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import anyio
from telegram import InlineKeyboardMarkup, LinkPreviewOptions, MessageEntity
from telegram.error import BadRequest, ChatMigrated, RetryAfter, TelegramError

from channels.base import AmbiguousSendError, BusyChannelError, ChannelError, GoneError
from channels.message import Address, Outbound, Signal
from channels.telegram import wire
from channels.telegram.failures import FileRefusedError, MovedError, failure, refuses_file, seconds
from channels.telegram.letter import FILE, Letter, compose, spelled

if TYPE_CHECKING:
    from telegram import Bot, Message

    from channels.telegram.render import Entity, Part

_NO_PREVIEW: Final = LinkPreviewOptions(is_disabled=True)
_REMEMBERED: Final = 256
_SPELLED: Final = " in messages"
_AT_ONCE: Final = 2_000
"""Up to this many characters are rendered on the spot, which takes less than a switch of threads is worth."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message goes: a chat, its topic, and the one member who alone may see it."""

    chat: int
    thread: int | None = None
    only: int | None = None


@dataclass(frozen=True, slots=True)
class _Shown:
    """A preview as it stands in a chat."""

    key: str
    message: int
    text: str


class Speaker:
    """Speaks with `bot`, at addresses as Telegram calls them now.

    That it is typing is shown again after `typing` seconds.
    """

    def __init__(self, bot: "Bot", typing: float) -> None:
        self._bot = bot
        self._typing = typing
        self._done: dict[tuple[Address, str, bool], int] = {}
        self._previews: dict[Address, _Shown] = {}
        self._quiet: dict[Address, float] = {}
        self._typed: dict[Address, float] = {}
        self._knows_ephemeral: bool | None = None

    async def send(self, outbound: Outbound) -> str:
        """Say it. Returns and raises as `Channel.send`."""
        place = _place(outbound.address)
        letter = await _composed(outbound)
        if outbound.replaces:
            return await self._replace(outbound, letter)
        if outbound.address.recipient:
            return await self._aside(outbound, letter, place)
        return await self._say(outbound, letter, place)

    async def preview(self, outbound: Outbound) -> None:
        """Show a text as far as it is written. Raises ChannelError: it was not shown."""
        address = outbound.address
        place = _place(address)
        if address.recipient:
            raise ChannelError("what is for one alone has no preview")
        wait = self._quiet.get(address.place, 0.0) - anyio.current_time()
        if wait > 0:
            raise BusyChannelError(wait)
        shown = self._previews.get(address)
        if not outbound.text or (shown is not None and shown.key != outbound.key):
            await self._take_back(address)
            shown = None
        if not outbound.text or (shown is not None and shown.text == outbound.text):
            return
        part = (await _composed(outbound)).parts[0]
        try:
            message = await self._part(place, part, None, shown.message if shown is not None else None)
        except TelegramError as error:
            raise await self._failure(error, address) from None
        self._previews[address] = _Shown(outbound.key, message, outbound.text)

    async def signal(self, address: Address, signal: Signal) -> None:
        """Show that something is going on; nobody minds if it cannot be."""
        if signal is Signal.DONE:
            await self._take_back(address)
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
        return self._quiet.get(address.place, 0.0) <= now

    async def _take_back(self, address: Address) -> None:
        shown = self._previews.pop(address, None)
        if shown is not None:
            with suppress(TelegramError):
                await self._bot.delete_message(_place(address).chat, shown.message)

    async def _replace(self, outbound: Outbound, letter: Letter) -> str:
        """Let a text stand in the place of a message; one that is gone stays gone."""
        chat, _, message = outbound.replaces.partition("/")
        part, *others = letter.parts
        if letter.file or others:
            raise ChannelError("one message cannot hold it")
        try:
            await self._edit(Place(_number(chat)), part, letter.keyboard, _number(message))
        except TelegramError as error:
            raise await self._failure(error, outbound.address) from None
        return outbound.replaces

    async def _edit(self, place: Place, part: "Part", keyboard: InlineKeyboardMarkup | None, old: int) -> None:
        """Edit a message, or what stands below a file."""
        try:
            await self._put(place, part.text, part.entities, keyboard, old)
        except BadRequest as error:
            told = error.message.lower()
            if "no text in the message" in told:
                await self._bot.edit_message_caption(place.chat, old, caption=part.plain, reply_markup=keyboard)
            elif "entit" in told:
                await self._put(place, part.plain, (), keyboard, old)
            elif "not modified" not in told:
                raise

    async def _aside(self, outbound: Outbound, letter: Letter, place: Place) -> str:
        """Say it to one alone: in the group if the API can hide it there, in private otherwise, never to the group."""
        alone = _number(outbound.address.recipient)
        if place.chat < 0 and not letter.file and await self._ephemeral(place.chat):
            try:
                return await self._say(outbound, letter, replace(place, only=alone))
            except (AmbiguousSendError, BusyChannelError):
                raise
            except ChannelError:
                pass  # not a member any more, perhaps; the private chat is still there
        try:
            return await self._say(outbound, letter, Place(alone))
        except GoneError:
            # The chat that was addressed is not gone.
            raise ChannelError("whom it is for cannot be spoken to in private") from None

    async def _ephemeral(self, chat: int) -> bool:
        """Tell whether the API knows messages for one alone; one that does not would ignore it and show them to all.

        It is asked with markup that is always refused, so that nothing can be shown, for an account that nobody has:
        only what knows the parameter can complain of that.
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

    async def _say(self, outbound: Outbound, letter: Letter, place: Place) -> str:
        try:
            return await self._in_order(outbound, letter, place)
        except FileRefusedError:
            text = await asyncio.to_thread(spelled, outbound)
            # Another key: where it was stopped is counted in its own messages.
            return await self._in_order(replace(outbound, key=f"{outbound.key}{_SPELLED}"), text, place)

    async def _in_order(self, outbound: Outbound, letter: Letter, place: Place) -> str:
        address, mark = outbound.address, (outbound.address, outbound.key, outbound.repeated)
        shown = self._previews.get(address)
        begun = self._done.pop(mark, 0)
        editing = None
        if shown is not None and shown.key == outbound.key:
            if outbound.repeated or letter.file:
                await self._take_back(address)
            else:
                del self._previews[address]
                editing = shown.message
        last = 0
        for number, part in enumerate(letter.parts):
            if number < begun:
                continue
            keyboard = letter.keyboard if number == len(letter.parts) - 1 else None
            try:
                if letter.file:
                    last = await self._document(place, letter, part)
                else:
                    last = await self._part(place, part, keyboard, None if number else editing)
            except TelegramError as error:
                failed = await self._failure(error, address)
                if isinstance(failed, BusyChannelError):
                    self._keep(mark, number)
                    if shown is not None and editing is not None and number == 0:
                        self._previews.setdefault(address, shown)
                elif number and not isinstance(failed, AmbiguousSendError | GoneError):
                    failed = AmbiguousSendError("only a part of it was shown")
                raise failed from None
        # What only one sees has no number by which it could be edited as others are.
        return f"{place.chat}/{last}" if place.only is None else ""

    def _keep(self, mark: tuple[Address, str, bool], done: int) -> None:
        while len(self._done) >= _REMEMBERED:
            del self._done[next(iter(self._done))]
        self._done[mark] = done

    async def _part(self, place: Place, part: "Part", keyboard: InlineKeyboardMarkup | None, old: int | None) -> int:
        """Show a part, in the place of an old message if there is one; return the number of the message."""
        try:
            return await self._put(place, part.text, part.entities, keyboard, old)
        except BadRequest as error:
            told = error.message.lower()
            if old is not None and "not modified" in told:
                return old
            if "entit" in told:
                return await self._put(place, part.plain, (), keyboard, old)
            if old is not None and ("message to edit" in told or "can't be edited" in told):
                return await self._part(place, part, keyboard, None)
            raise

    async def _put(
        self,
        place: Place,
        text: str,
        entities: "tuple[Entity, ...]",
        keyboard: InlineKeyboardMarkup | None,
        old: int | None,
    ) -> int:
        formatted = _entities(entities)
        if old is not None:
            await self._bot.edit_message_text(
                text, place.chat, old, entities=formatted, link_preview_options=_NO_PREVIEW, reply_markup=keyboard
            )
            return old
        only: dict[str, Any] = {"receiver_user_id": place.only} if place.only is not None else {}
        sent = await self._bot.send_message(
            place.chat,
            text,
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
        """Take back what was to be hidden; the API has lost what it could."""
        self._knows_ephemeral = False
        with suppress(TelegramError):
            await self._bot.delete_message(sent.chat_id, sent.message_id)
        raise AmbiguousSendError("what was for one alone was shown to all for a moment")

    async def _document(self, place: Place, letter: Letter, lead: "Part") -> int:
        try:
            return await self._upload(place, letter, lead.text, lead.entities)
        except TelegramError as error:
            unreadable = isinstance(error, BadRequest) and lead.entities and "entit" in error.message.lower()
            if not unreadable and refuses_file(error):
                raise FileRefusedError from None
            if not unreadable:
                raise
        return await self._upload(place, letter, lead.plain, ())

    async def _upload(self, place: Place, letter: Letter, caption: str, entities: "tuple[Entity, ...]") -> int:
        sent = await self._bot.send_document(
            place.chat,
            letter.file,
            filename=FILE,
            caption=caption,
            caption_entities=_entities(entities),
            reply_markup=letter.keyboard,
            message_thread_id=place.thread,
        )
        return sent.message_id

    async def _failure(self, error: TelegramError, address: Address) -> ChannelError:
        """Return what to raise, after noting what a failure tells of the chat."""
        if isinstance(error, ChatMigrated):
            return MovedError(str(error.new_chat_id))
        if isinstance(error, RetryAfter):
            self._quiet = {chat: until for chat, until in self._quiet.items() if until > anyio.current_time()}
            self._quiet[address.place] = anyio.current_time() + seconds(error)
        return failure(error)


async def _composed(outbound: Outbound) -> Letter:
    if len(outbound.text) <= _AT_ONCE:
        return compose(outbound)
    return await asyncio.to_thread(compose, outbound)


def _entities(entities: "tuple[Entity, ...]") -> list[MessageEntity]:
    return [
        MessageEntity(one.kind, one.offset, one.length, url=one.url or None, language=one.language or None)
        for one in entities
    ]


def _place(address: Address) -> Place:
    """Return where an address is.

    Raises ChannelError: there is no such place on Telegram.
    """
    if address.channel != wire.NAME or address.workspace:
        raise ChannelError("the address is not one of Telegram's")
    thread = _number(address.thread) if address.thread else None
    return Place(_number(address.chat), None if thread == wire.GENERAL else thread)


def _number(text: str) -> int:
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        raise ChannelError("the address is not one of Telegram's")
    return int(text)
