"""Buttons that were pressed: each shows that it waits until it is answered, once.

The person who pressed reads there a text that fits into an answer, and no other person sees it, also where they have no
chat with the bot. A text that comes too late for that is sent as a message.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import anyio
from telegram import InlineKeyboardMarkup
from telegram.error import BadRequest, TelegramError

from channels.messages import Outbound
from channels.port import Left
from channels.rich_text import utf16_units
from channels.telegram.errors import failure
from channels.telegram.render import compose
from channels.telegram.updates import Json

if TYPE_CHECKING:
    from telegram import Bot

_LONGEST: Final = 200
"""The most that an answer to a press may hold, in UTF-16 code units."""


class ButtonPresses:
    """Answers presses. `patience` is how long, in seconds, a button shows that it waits."""

    def __init__(self, bot: "Bot", patience: float) -> None:
        self._bot = bot
        self._patience = patience
        self._waiting = set[str]()
        self._pressed = dict[str, Json]()

    @asynccontextmanager
    async def pressed(self, told: Json) -> AsyncGenerator[None]:
        """Take in a press within this block; without an answer by its end, or in time, it is answered without words.

        Raises the block's error: then the press comes again, and is answered then.
        """
        query = str(told["id"])
        self._waiting.add(query)
        if "reply_markup" in (told.get("message") or {}):
            self._pressed[query] = told["message"]
        failed: Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._impatient, query)
                try:
                    yield
                except Exception as error:  # noqa: BLE001 - raised again below, and not as one of a group
                    failed = error
                tasks.cancel_scope.cancel()
            if failed is not None:
                raise failed
            await self._end(query)
        finally:
            self._waiting.discard(query)
            self._pressed.pop(query, None)

    async def tell(self, outbound: Outbound) -> bool:
        """Answer a press with the text for its presser alone; return whether that was possible.

        Raises ChannelError as `Channel.send`.
        """
        if not outbound.address.recipient or outbound.press not in self._waiting:
            return False
        composed = compose(outbound)
        part, *others = composed.parts
        if composed.file or composed.keyboard or others or utf16_units(part.text) > _LONGEST:
            return False
        self._waiting.discard(outbound.press)
        try:
            await self._bot.answer_callback_query(outbound.press, part.text, show_alert=True)
        except BadRequest:
            # It came too late.
            return False
        except TelegramError as error:
            raise failure(error) from None
        return True

    async def spend(self, query: str, left: Left) -> None:
        """Take away the buttons of a pressed message, besides those that are left; a failure is ignored."""
        message = self._pressed.get(query)
        if message is None or not message["message_id"]:
            # A message for one person alone has no number by which it could be edited.
            return
        rows: list[list[Json]] = message["reply_markup"]["inline_keyboard"]
        staying = set(left(tuple(str(key.get("callback_data", "")) for row in rows for key in row)))
        kept = [[key for key in row if key.get("callback_data", "") in staying] for row in rows]
        if kept == rows:
            return
        keyboard = InlineKeyboardMarkup.de_json({"inline_keyboard": [row for row in kept if row]}, self._bot)
        with suppress(TelegramError):
            await self._bot.edit_message_reply_markup(
                message["chat"]["id"], message["message_id"], reply_markup=keyboard if any(kept) else None
            )

    async def refuse(self, query: str, text: str) -> None:
        """Answer a press on a button that is not ours."""
        with suppress(TelegramError):
            await self._bot.answer_callback_query(query, text, show_alert=True)

    async def _impatient(self, query: str) -> None:
        await anyio.sleep(self._patience)
        with anyio.CancelScope(shield=True):
            await self._end(query)

    async def _end(self, query: str) -> None:
        if query in self._waiting:
            self._waiting.discard(query)
            with suppress(TelegramError):
                await self._bot.answer_callback_query(query)
