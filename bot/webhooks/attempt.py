"""One try to hand an event to a receiver: the message, its signature, and the meaning of the answer.

Messages and signatures are those of Standard Webhooks. The name is looked up and each of its addresses is checked at
every try, and the connection is made to one that was checked (`bot.tools.web.connection`). So a name cannot come to
mean a place inside. No redirect is followed. Of the answer only status and `Retry-After` are read. Errors use constant
sentences.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final

import anyio
from standardwebhooks import Webhook

from bot.core.clock import Clock
from bot.core.json_values import JsonObject
from bot.tools.web.address import AddressError, parsed
from bot.tools.web.connection import ConnectionRefusedHereError, Connector

TIMEOUT: Final = "it took too long to answer"
UNENCRYPTED: Final = "events are sent over https:// alone"
REDIRECT: Final = "it answered with a redirect, and none is followed"

_BACKING_OFF: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""The statuses with which a receiver says when it takes more."""

_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class WebhookMessage:
    """A message: `id` is the same at every try, `payload` the text that is signed."""

    id: str
    payload: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attempted:
    """The outcome of a try: taken if there is no `error`.

    `gone` tells that the receiver wants nothing any more, `after` how many seconds it asks to be left alone.
    """

    error: str = ""
    gone: bool = False
    after: float = 0.0


def message(event_id: str, kind: str, at: int, data: JsonObject) -> WebhookMessage:
    """Return a message that tells of something; `at` is when that was, in milliseconds."""
    when = datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    told = {"type": kind, "timestamp": when, "data": data}
    # Not as it is: a lone surrogate has no place in UTF-8.
    return WebhookMessage(event_id, json.dumps(told, separators=(",", ":")))


def signed(sent: WebhookMessage, secrets: Iterable[str], now: int) -> dict[str, str]:
    """Return the headers of a message, with a signature by each of the secrets; `now` is in milliseconds."""
    moment = datetime.fromtimestamp(now // 1000, UTC)
    signatures = [Webhook(secret).sign(sent.id, moment, sent.payload) for secret in secrets]
    return {
        "Content-Type": "application/json",
        "webhook-id": sent.id,
        "webhook-timestamp": str(now // 1000),
        "webhook-signature": " ".join(signatures),
    }


class Poster:
    """Makes the requests. A receiver has `seconds` for all of one: its name, its connection and its answer."""

    def __init__(self, connector: Connector, seconds: float, clock: Clock) -> None:
        self._connector, self._seconds = connector, seconds
        self._clock = clock

    async def post(self, url: str, headers: dict[str, str], payload: str) -> Attempted:
        """Send a message, and return the outcome."""
        try:
            # Nothing is written in between that a cancellation could tear.
            with anyio.fail_after(self._seconds):
                return await self._posted(url, headers, payload)
        except TimeoutError:
            return Attempted(TIMEOUT)
        except (AddressError, ConnectionRefusedHereError) as error:
            return Attempted(str(error))

    async def _posted(self, url: str, headers: dict[str, str], payload: str) -> Attempted:
        place = parsed(url)
        addresses = await self._connector.addresses(place)
        if not self._connector.is_safe_for_secrets(place, addresses):
            return Attempted(UNENCRYPTED)
        async with self._connector.answer(place, addresses, headers, post=payload.encode()) as response:
            status = response.status_code
            after = response.headers.get("retry-after", "") if status in _BACKING_OFF else ""
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return Attempted()
        if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            return Attempted(REDIRECT)
        return Attempted(f"it answered with status {status}", gone=status == HTTPStatus.GONE, after=self._until(after))

    def _until(self, written: str) -> float:
        """Return the seconds that `Retry-After` asks for, which is a number of them or a date; 0 for neither."""
        if written.isascii() and written.isdigit():
            return float(written[:_DIGITS])
        try:
            return max(0.0, parsedate_to_datetime(written).timestamp() - self._clock.wall_ms() / 1000)
        except (ValueError, TypeError, OverflowError):
            return 0.0
