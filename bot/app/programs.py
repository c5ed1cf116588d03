"""Programs: what the HTTP API is made from, imported when it serves, off the event loop."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from bot.api.services import ApiServices
from bot.config.api import ApiSettings
from bot.core.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from bot.app.app import App


def services(app: "App") -> ApiServices:
    """Return what the API of an application works with. Raises ConfigError: none is configured."""
    return ApiServices(
        settings=configured(app.config.channels.api),
        config=app.config,
        clock=app.clock,
        ids=app.ids,
        tokens=app.tokens,
        gate=app.gate,
        reloader=app.reloader,
        store=app.store,
        session_ids=app.session_ids,
        router=app.router,
        agents=app.agents,
        lifecycle=app.lifecycle,
        exporter=app.exporter,
        importer=app.importer,
        simulator=app.simulator,
        audit=app.audit,
        question_answers=app.question_answers,
        interrupt=app.interrupt,
        closing=asyncio.Event(),
    )


def configured(settings: ApiSettings | None) -> ApiSettings:
    """Return the API's settings. Raises ConfigError: there are none."""
    if settings is None:
        raise ConfigError("`channels.api` is not configured", next_step="see docs/api.md")
    return settings


def document() -> "dict[str, JsonValue]":
    """Return the document of the API, OpenAPI 3.1."""
    from bot.api import application

    return application.document()


async def answer(app: "App", began: Callable[[str], None]) -> None:
    """Serve the API of an application until cancelled; `began` is told where.

    Raises OSError: its address cannot be listened at.
    """
    made = services(app)
    await asyncio.to_thread(import_module, "bot.api.server")
    from bot.api import server

    await server.serve(made, began)
