"""The line below a thread that tells that something is going on, such as "is thinking…".

Slack takes it away when something is said there, or after two minutes.
"""

from types import MappingProxyType
from typing import Final

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


class Status:
    """Shows it in threads, where Slack allows that."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._shown: dict[Place, Signal] = {}
        self._refused: dict[tuple[str, str], None] = {}

    async def show(self, place: Place, signal: Signal) -> None:
        """Show a status, or with DONE none; nobody minds if that fails."""
        if not place.thread or place.home or place.only or (place.team, place.channel) in self._refused:
            return
        if signal is Signal.DONE and self._shown.pop(place, None) is None:
            return
        try:
            client = await self._clients.of(place.team)
            await client.assistant_threads_setStatus(
                channel_id=place.channel, thread_ts=place.thread, status=_SHOWN[signal]
            )
        except ChannelError:
            return
        except FAILURES as error:
            if code(error) not in _PASSING:
                remember(self._refused, (place.team, place.channel), None)
            return
        if signal is not Signal.DONE:
            remember(self._shown, place, signal)
