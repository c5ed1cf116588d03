"""Calls to the Bot API whose answers may be anything: what the library cannot read fails that call and nothing else.

Other servers than Telegram's speak the Bot API too, and leave fields out that the library takes for given. What it
stumbles over is an error of the library's own kind here: nobody knows whether the call was done.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from telegram import Bot
from telegram.error import NetworkError, TelegramError

if TYPE_CHECKING:
    from types import CoroutineType

UNREADABLE: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What the library raises for an answer that is none of the Bot API's."""

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LOGGER: Final = logging.getLogger(__name__)


class UnreadableError(NetworkError):
    """An answer cannot be read, so nobody knows whether the call was done."""

    def __init__(self) -> None:
        super().__init__("the answer cannot be read")


def read(call: Callable[_P, Awaitable[_R]]) -> "Callable[_P, CoroutineType[Any, Any, _R]]":
    """Return a call that raises UnreadableError for what the library cannot read."""

    async def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return await call(*args, **kwargs)
        except TelegramError:
            raise
        except UNREADABLE as error:
            _LOGGER.warning("Telegram's answer cannot be read", extra={"subject": "channel telegram"}, exc_info=True)
            raise UnreadableError from error

    return checked


class Calls(Bot):
    """The library's bot, of which the calls that an adapter makes are checked."""

    get_me = read(Bot.get_me)
    get_file = read(Bot.get_file)
    get_webhook_info = read(Bot.get_webhook_info)
    set_webhook = read(Bot.set_webhook)
    delete_webhook = read(Bot.delete_webhook)
    get_chat_administrators = read(Bot.get_chat_administrators)
    set_my_commands = read(Bot.set_my_commands)
    delete_my_commands = read(Bot.delete_my_commands)
    send_chat_action = read(Bot.send_chat_action)
    send_message = read(Bot.send_message)
    send_document = read(Bot.send_document)
    edit_message_text = read(Bot.edit_message_text)
    edit_message_caption = read(Bot.edit_message_caption)
    delete_message = read(Bot.delete_message)
    answer_callback_query = read(Bot.answer_callback_query)
