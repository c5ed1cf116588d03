"""The line below a thread that tells that something is going on, such as "is thinking…".

Slack takes it away when something is said there, or after two minutes.
"""

from types import MappingProxyType
from typing import Final

import anyio

from channels.base import ChannelError
from channels.message import Signal
from channels.slack.clients import Clients
from channels.slack.failures import FAILURES, code
from channels.slack.place import Place
from channels.slack.post import remember

_SHOWN: Final = MappingProxyType(
    {
        Signal.WORKING: "is thinking…",
        Signal.READING: "is reading…",
        Signal.WRITING: "is writing…",
        Signal.DONE: "",
    }
)
_PASSING: Final = frozenset({"", "ratelimited", "internal_error", "fatal_error", "service_unavailable"})
"""What says nothing about the place; whoever answers otherwise refuses it there, and is not asked again."""


RENEWED: Final = 60.0
"""Seconds after which a status is shown again, before Slack takes it away."""


class Status:
    """Shows it in threads, where Slack allows that, again after `renewed` seconds if it still goes on."""

    def __init__(self, clients: Clients, renewed: float = RENEWED) -> None:
        self._clients = clients
        self._renewed = renewed
        self._shown: dict[Place, tuple[Signal, float]] = {}
        self._refused: dict[tuple[str, str], None] = {}

    async def show(self, place: Place, signal: Signal) -> None:
        """Show a status, or with DONE none; nobody minds if that fails."""
        if not place.thread or place.home or place.only or (place.team, place.channel) in self._refused:
            return
        now, shown = anyio.current_time(), self._shown.get(place)
        if signal is Signal.STILL:
            if shown is None or now < shown[1] + self._renewed:
                return
            signal = shown[0]
            self._shown[place] = (signal, now)
            await self._put(place, signal)
            if place not in self._shown:
                # It ended meanwhile, and nobody would take this away.
                await self._put(place, Signal.DONE)
        elif signal is not Signal.DONE:
            if await self._put(place, signal):
                remember(self._shown, place, (signal, now))
        elif self._shown.pop(place, None) is not None:
            await self._put(place, signal)

    async def _put(self, place: Place, signal: Signal) -> bool:
        """Have Slack show it, and return whether it does."""
        try:
            client = await self._clients.of(place.team)
            await client.assistant_threads_setStatus(
                channel_id=place.channel, thread_ts=place.thread, status=_SHOWN[signal]
            )
        except ChannelError:
            return False
        except FAILURES as error:
            if code(error) not in _PASSING:
                remember(self._refused, (place.team, place.channel), None)
            return False
        return True
