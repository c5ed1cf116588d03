"""Webhooks: where the API sends events by itself, and how a receiver knows that they come from there."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from standardwebhooks.webhooks import Webhook as Signatures
from standardwebhooks.webhooks import WebhookVerificationError

from lockgate.errors import ForgedWebhookError
from lockgate.retries import new_key
from lockgate.shapes import (
    DeadEventPage,
    EventLevel,
    Redelivered,
    SecretWebhook,
    WebhookEntry,
    WebhookMessage,
    WebhookPage,
)
from lockgate.transport import IDEMPOTENCY_KEY, ClientRequest, Transport, read

if TYPE_CHECKING:
    from pydantic import JsonValue


class Webhooks:
    """The webhooks of the program whose token this is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self, url: str, *, level: EventLevel | None = None, types: Iterable[str] = (), sessions: Iterable[str] = ()
    ) -> SecretWebhook:
        """Have events sent to a server from now on; its secret is returned only this once.

        Args:
            url: an address with `https` that is public.
            level: the lowest level that is sent, `user` or `progress`; None for `progress`.
            types: the types of events; empty for all.
            sessions: the sessions whose events are sent; empty for all sessions of this program.
        """
        chosen: dict[str, JsonValue] = {"level": level, "types": [*types], "sessions": [*sessions]}
        body: dict[str, JsonValue] = {"url": url, **{name: value for name, value in chosen.items() if value}}
        return await self._transport.value(_once("/webhooks", body), SecretWebhook)

    async def list(self) -> WebhookPage:
        """Return the webhooks of this program, the oldest first."""
        return await self._transport.value(ClientRequest("GET", "/webhooks", repeatable=True), WebhookPage)

    async def get(self, webhook: str) -> WebhookEntry:
        """Return a webhook by its id."""
        return await self._transport.value(ClientRequest("GET", _path(webhook), repeatable=True), WebhookEntry)

    async def delete(self, webhook: str) -> None:
        """Delete a webhook; its undelivered events are forgotten."""
        await self._transport.content(ClientRequest("DELETE", _path(webhook)))

    async def replace_secret(self, webhook: str) -> SecretWebhook:
        """Give a webhook another secret; for a day messages are signed by the one before, too."""
        return await self._transport.value(_once(f"{_path(webhook)}/secret"), SecretWebhook)

    async def enable(self, webhook: str) -> WebhookEntry:
        """Have events sent again to a webhook that was disabled, also those that happened meanwhile."""
        return await self._transport.value(
            ClientRequest("POST", f"{_path(webhook)}/enable", repeatable=True), WebhookEntry
        )

    async def dead(self, webhook: str | None = None) -> DeadEventPage:
        """Return the events that could not be delivered, by one webhook or by all."""
        query = {"webhook": webhook}
        return await self._transport.value(
            ClientRequest("GET", "/webhooks/dead", query, repeatable=True), DeadEventPage
        )

    async def redeliver(self, event: str) -> Redelivered:
        """Have an event that was not taken tried once more, under the same id."""
        path = f"/webhooks/dead/{quote(event, safe='')}/redeliver"
        return await self._transport.value(ClientRequest("POST", path, repeatable=True), Redelivered)


def received(body: bytes, headers: Mapping[str, str], secret: str) -> WebhookMessage:
    """Return the message of a webhook's request, after its signature was checked.

    Args:
        body: as it came, not parsed.
        headers: of the request.
        secret: the webhook's, as it was returned when it was made.

    Raises:
        ForgedWebhookError: it is not signed with this secret, or was sent more than five minutes ago.
        UnexpectedAnswerError: it is signed, and of another shape.
    """
    try:
        Signatures(secret).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):
        raise ForgedWebhookError("this request is not signed with the webhook's secret, or not lately") from None
    return read(WebhookMessage, body)


def _once(path: str, body: "JsonValue" = None) -> ClientRequest:
    """Return a request that is done once, however often it is sent."""
    return ClientRequest("POST", path, body=body, headers={IDEMPOTENCY_KEY: new_key()}, repeatable=True)


def _path(webhook: str) -> str:
    return f"/webhooks/{quote(webhook, safe='')}"
