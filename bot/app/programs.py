"""Programs: the HTTP API, imported when it serves, off the event loop."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from bot.api.services import ApiServices

if TYPE_CHECKING:
    from pydantic import JsonValue


def document() -> "dict[str, JsonValue]":
    """Return the document of the API, OpenAPI 3.1."""
    from bot.api import application

    return application.document()


async def answer(services: ApiServices, began: Callable[[str], None]) -> None:
    """Serve the API until cancelled; `began` is told where. Raises OSError: its address cannot be listened at."""
    await asyncio.to_thread(import_module, "bot.api.server")
    from bot.api import server

    await server.serve(services, began)
