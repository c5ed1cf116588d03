"""The meaning of a failed call to the Bot API for a text to be sent.

No sentence of Telegram's or of the HTTP library is handed on: it may hold the token, or the text.
"""

from datetime import timedelta
from typing import Final

from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter, TelegramError

from channels.port import AmbiguousSendError, BusyChannelError, ChannelError, GoneError
from channels.telegram.client import UnsentError

_REFUSED: Final = ("request entity too large", "too many requests")
_GONE: Final = (
    *("chat not found", "user not found", "message thread not found", "topic_deleted", "peer_id_invalid"),
    *("group chat was deactivated", "user is deactivated"),
)
_NO_RIGHT: Final = ("not enough rights", "have no rights", "need administrator rights", "chat_write_forbidden")


class MovedError(ChannelError):
    """The chat has another id now, `chat`; nothing was sent."""

    def __init__(self, chat: str) -> None:
        super().__init__("the chat has another id now")
        self.chat = chat


def failure(error: TelegramError) -> ChannelError:
    """Return the error of ours for one of the library's."""
    match error:
        case RetryAfter():
            return BusyChannelError(seconds(error))
        case Forbidden():
            return GoneError("the bot was blocked or removed there")
        case BadRequest() if any(sentence in error.message.lower() for sentence in _GONE):
            return GoneError("the chat or the topic is gone")
        case NetworkError() if not isinstance(error, BadRequest) and not _unsent(error):
            # 500 and 502 too: the server behind the one that answers so may have taken the message.
            return AmbiguousSendError("the connection broke before Telegram answered")
        case _:
            return ChannelError(_certain(error))


def _certain(error: TelegramError) -> str:
    match error:
        case BadRequest() if any(sentence in error.message.lower() for sentence in _NO_RIGHT):
            return "the bot has no right to write there; an admin of the chat can give it back"
        case BadRequest():
            return "Telegram refused the message"
        case InvalidToken():
            return "Telegram does not accept the bot's token"
        case NetworkError():
            return "Telegram cannot be reached"
        case _:
            return "Telegram answered with an error"


def seconds(error: RetryAfter) -> float:
    """Return how long Telegram asks to wait."""
    asked = error.retry_after
    return asked.total_seconds() if isinstance(asked, timedelta) else float(asked)


def refuses_file(error: TelegramError) -> bool:
    """Tell whether a file is refused for good, where a text may still be taken."""
    told = error.message.lower()
    if isinstance(error, BadRequest):
        return not any(sentence in told for sentence in _GONE)
    return isinstance(error, NetworkError) and told.startswith("request entity too large")


def by_webhook(error: Conflict) -> bool:
    """Tell whether a 409 is about a webhook that is set; otherwise another program polls."""
    return "webhook" in error.message.lower()


def _unsent(error: NetworkError) -> bool:
    return isinstance(error, UnsentError) or any(error.message.lower().startswith(one) for one in _REFUSED)
