"""The meaning of a failed call to Slack's Web API for a text to be sent.

No sentence of Slack's or of the HTTP library is handed on: it may hold the token, or the text.
"""

from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError

from channels.port import AmbiguousSendError, BusyChannelError, ChannelError, GoneError

UNREADABLE: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""The error for an answer that is not as Slack describes it: the call may have been done."""

FAILURES: Final = (SlackClientError, aiohttp.ClientError, TimeoutError, *UNREADABLE)
"""The client's errors when a call fails."""

_TOO_MANY: Final = 429
_OURS_TO_WAIT: Final = 30.0
_SERVER: Final = 500
_BUSY: Final = frozenset({"ratelimited", "rate_limited"})
# Slack says of these itself that a part may have been done before the error.
_UNKNOWN: Final = frozenset({"fatal_error", "internal_error", "service_unavailable"})
_GONE: Final = frozenset(
    {
        *("channel_not_found", "is_archived", "not_in_channel", "user_not_found", "user_disabled"),
        *("thread_not_found", "cannot_reply_to_message", "restricted_action_thread_locked"),
        *("account_inactive", "token_revoked", "team_not_found", "app_uninstalled"),
    }
)
_NO_RIGHT: Final = ("restricted_action", "posting_to_general_channel_denied", "no_permission", "access_denied")
_TOKEN: Final = frozenset({"invalid_auth", "not_authed", "token_expired"})
_NO_FILES: Final = frozenset(
    {
        *("file_type_not_allowed", "file_upload_size_restricted", "file_uploads_disabled"),
        *("file_uploads_except_images_disabled", "storage_limit_reached", "access_denied", "no_permission"),
    }
)
_TOO_LARGE: Final = 413
# The connection was never made, so nothing was sent on it.
_UNSENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)


def code(error: Exception) -> str:
    """Return Slack's name of an error, empty where Slack did not answer."""
    data = getattr(getattr(error, "response", None), "data", None)
    return str(data.get("error", "")) if isinstance(data, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType] - of an untyped library


def told(answer: Any, *names: str) -> str:  # noqa: ANN401 - Slack's JSON
    """Return a text that an answer tells under these names, one within the other. Raises one of `UNREADABLE`."""
    for name in names:
        answer = answer[name]
    if not isinstance(answer, str) or not answer:
        raise KeyError(*names)
    return answer


def failure(error: Exception) -> ChannelError:
    """Return the error of ours for one of `FAILURES`."""
    told, status = code(error), _status(error)
    if status == _TOO_MANY or told in _BUSY:
        return BusyChannelError(_seconds(error))
    if told in _UNKNOWN or status >= _SERVER or _unanswered(error):
        return AmbiguousSendError("the connection broke before Slack answered")
    if told in _GONE:
        return GoneError("the chat or the thread is gone, or the app was removed there")
    if told in _TOKEN:
        return ChannelError("Slack does not accept the bot's token")
    if told == "missing_scope":
        return ChannelError("the app lacks a scope; install it again with the manifest")
    return ChannelError(_refusal(told))


def _refusal(told: str) -> str:
    if told.startswith(_NO_RIGHT):
        return "the app has no right to write there; an admin of the workspace can give it back"
    return "Slack refused the message" if told else "Slack cannot be reached"


def refuses_file(error: Exception) -> bool:
    """Tell whether a file is refused for good, where a text may still be taken."""
    too_large = isinstance(error, aiohttp.ClientResponseError) and error.status == _TOO_LARGE
    return too_large or code(error) in _NO_FILES


def _unanswered(error: Exception) -> bool:
    """Tell whether Slack may have done it without our reading its answer."""
    return not code(error) and not isinstance(error, _UNSENT)


def _status(error: Exception) -> int:
    response: Any = getattr(error, "response", None)
    # Where the answer is no JSON, the library hands over the one of the HTTP library.
    return int(getattr(response, "status_code", 0) or getattr(response, "status", 0))


def _seconds(error: Exception) -> float:
    """Return how long Slack asks to wait."""
    response = error.response if isinstance(error, SlackApiError) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - of an untyped library
    asked = str(getattr(response, "headers", {}).get("Retry-After", ""))  # pyright: ignore[reportUnknownArgumentType] - as above
    return float(asked) if asked.isdecimal() else _OURS_TO_WAIT
