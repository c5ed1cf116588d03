"""The errors that the client raises.

- `LockgateClientError` - `ApiError`: the API refused; its `code` is stable, and `next_step` says what helps -
  `UnreachableError`: no answer came for as long as the client waits; the request may have been done -
  `UnexpectedAnswerError`: an answer that the API does not give, as of a proxy, or of a newer version -
  `StreamEndedError`: the session cannot be read any more by this token - `LogTruncatedError`: the log lacks events -
  `ForgedWebhookError`: a webhook's request that the API did not send, or not lately

No message holds the token or a body that was sent.
"""

from typing import Final

TOO_MANY: Final = 429
UNAVAILABLE: Final = 503


class LockgateClientError(Exception):
    """Base of all that the client raises by itself."""


class ApiError(LockgateClientError):
    """The API refused a request.

    Args:
        status: the HTTP status.
        code: stable; docs/api.md lists them.
        message: one sentence for people.
        next_step: the step that helps, or empty.
        request_id: the id by which the operator finds the request in the log.
        retry_after: the seconds that the API asks to wait, 0 if it does not say.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        next_step: str = "",
        request_id: str = "",
        retry_after: float = 0.0,
    ) -> None:
        told = " ".join(sentence for sentence in (message, next_step) if sentence)
        super().__init__(f"{told} ({code}, request {request_id})" if request_id else f"{told} ({code})")
        self.status = status
        self.code = code
        self.message = message
        self.next_step = next_step
        self.request_id = request_id
        self.retry_after = retry_after


class UnreachableError(LockgateClientError):
    """The API gave no answer; the request may have been done all the same."""


class UnexpectedAnswerError(LockgateClientError):
    """An answer that is not one of the API."""


class StreamEndedError(LockgateClientError):
    """The stream ended for good: this token may not read the session any more, or the session does not exist."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the stream ended: {reason}")
        self.reason = reason


class LogTruncatedError(LockgateClientError):
    """The log ends before the last event that the stream told, as its store lost later ones; the stream can go on.

    Args:
        after: the number of the last event that was told.
        last: the number of the last event that the log has.
    """

    def __init__(self, after: int, last: int) -> None:
        super().__init__(f"the log ends at {last}, before {after}")
        self.after = after
        self.last = last


class ForgedWebhookError(LockgateClientError):
    """A request to a webhook that the API did not send, or not lately."""
