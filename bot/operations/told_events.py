"""What programs are told of an event: the same in a page, in a stream and by a webhook.

What an event came from is not told: that names other sessions, and what is kept out of this one.
"""

from collections.abc import Callable

from bot.core.json_values import JsonObject
from bot.operations.reading import SessionReader
from bot.sessions.log.events import Event
from policy.labels import Label


class EventTeller:
    """Tells programs of events."""

    def __init__(self, reading: SessionReader, masked: Callable[[str], str]) -> None:
        """Take what reads events for programs; `masked` takes the values of secrets from a text."""
        self._reading = reading
        self._masked = masked

    def told(self, sid: str, event: Event, reader: Label) -> JsonObject | None:
        """Return an event of a session as JSON, None for one that this reader may not know."""
        body = self._reading.told(event, reader)
        if body is None:
            return None
        turn: JsonObject = {"turn_id": event.turn} if event.turn else {}
        return {
            "id": f"{sid}-{event.seq}",
            "seq": event.seq,
            "ts": event.ts,
            "actor": self._masked(event.actor),
            "type": event.type,
            "level": event.visibility.value,
            "label": str(event.label),
            "body": dict(body),
            **turn,
        }
