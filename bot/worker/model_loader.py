"""The configured models of a process, created when they are first needed: loading their libraries takes time."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

from bot.access.decision_context import DecisionContext
from bot.sessions.log.events import Event
from bot.sessions.models import Inspected, Inspection, Recapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from bot.agent.thinking import Thinking


class ModelLoader:
    """Makes the models once, by `make`, which is called in a thread."""

    def __init__(self, make: "Callable[[], Thinking]") -> None:
        self._make = make
        self._made: Thinking | None = None
        self._making = asyncio.Lock()

    async def thinking(self) -> "Thinking":
        """Return the configured models.

        Raises ConfigError: one of them cannot be used.
        """
        async with self._making:
            if self._made is None:
                # Loading the libraries of models and reading certificates takes time, off the event loop.
                await asyncio.to_thread(import_module, "bot.agent.thinking")
                self._made = await asyncio.to_thread(self._make)
        return self._made

    async def recap(self, standing: DecisionContext, events: tuple[Event, ...], topic: str) -> Recapped:
        """Return a recap of a session's events by the configured models."""
        thinking = await self.thinking()
        return await thinking.recap(standing, events, topic)

    async def inspect(self, standing: DecisionContext, inspection: Inspection) -> Inspected:
        """Return an answer from held items, by the configured models."""
        thinking = await self.thinking()
        return await thinking.inspector(standing, inspection)

    async def close(self) -> None:
        """Close the connections to models."""
        if self._made is not None:
            await self._made.seats.close()
