"""Programs: the HTTP API, imported when it serves, off the event loop."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from bot.api.services import ApiServices
from bot.tools.web_connection import Connector

if TYPE_CHECKING:
    from pydantic import JsonValue

    from bot.webhooks.sender import WebhookSender


def document() -> "dict[str, JsonValue]":
    """Return the document of the API, OpenAPI 3.1."""
    from bot.api import application

    return application.document()


async def answer(services: ApiServices, connector: Connector, began: Callable[[str], None]) -> None:
    """Serve the API and send webhooks until cancelled; `began` is told where it listens.

    `connector` reaches the receivers of webhooks. Raises OSError: the API's address cannot be listened at.
    """
    await asyncio.to_thread(import_module, "bot.api.server")
    from bot.api import server

    sender = await asyncio.to_thread(_sender, services, connector)
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(sender.serve())
        try:
            await server.serve(services, began)
        finally:
            sending.cancel()


def _sender(services: ApiServices, connector: Connector) -> "WebhookSender":
    from bot.operations.told_events import EventTeller
    from bot.webhooks.attempt import Poster
    from bot.webhooks.delivery import SendingParts, Slots
    from bot.webhooks.sender import WebhookSender

    settings, store = services.config.webhooks, services.store
    parts = SendingParts(
        store=store,
        tokens=services.tokens,
        reading=services.reading,
        teller=EventTeller(services.reading, services.gate.masks.masked),
        poster=Poster(connector, settings.seconds, services.clock),
        secrets=services.webhooks.secrets,
        slots=Slots(),
        clock=services.clock,
        top=lambda: services.gate.document.top,
        in_force=services.reloader.current_now,
        now=store.tokens.now_ms,
        chance=services.ids.chance,
        retries=settings.retry_seconds,
        failing_days=settings.failing_days,
    )
    return WebhookSender(parts, f"{store.sessions.process}.{services.ids.owner()}")
