"""Webhooks as values: where a program receives events of its sessions, its position in each, and dead events.

Events are not copied here: the log holds them, and a position tells up to which event they were sent. So a webhook
costs a session nothing until it is sent, and no event can be lost between two records.
"""

from dataclasses import dataclass
from enum import StrEnum

from bot.core.ids import webhook_event_id
from bot.sessions.log.events import Event, Visibility

UNAVAILABLE = "session.unavailable"
"""The type of the one constant event that closes a session for a webhook, after it rose above its reader."""


class Ended(StrEnum):
    """Why a webhook was disabled: its receiver answered 410, or failed for days."""

    GONE = "gone"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class ProgramWebhook:
    """A webhook. Times are in milliseconds on the store's clock.

    Args:
        id: Its id.
        owner: The principal of its program.
        url: The address of its receiver.
        level: The least visibility of the events it gets.
        types: The types of events it gets, empty for all.
        sessions: The sessions whose events it gets, empty for all.
        created_at: When it was created; older events are not sent.
        failing: Since when every delivery failed, 0 for a webhook that works.
        disabled: Why it is disabled, None for an enabled webhook.
        enabled_at: When it was enabled again, 0 for never.
        wanted_at: When its program last asked for another try of a dead event.
    """

    id: str
    owner: str
    url: str
    level: Visibility
    types: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    created_at: int = 0
    failing: int = 0
    disabled: Ended | None = None
    enabled_at: int = 0
    wanted_at: int = 0

    def covers(self, sid: str) -> bool:
        """Say whether events of a session are sent at all."""
        return not self.sessions or sid in self.sessions

    def wants(self, event: Event) -> bool:
        """Say whether an event passes the filters."""
        return event.visibility.at_least(self.level) and (not self.types or event.type in self.types)

    def event_id(self, sid: str, seq: int) -> str:
        """Return the constant id under which an event of a session is sent here; the seq 0 is the closing event."""
        return webhook_event_id(self.id, sid, seq)


@dataclass(frozen=True, slots=True)
class WebhookPosition:
    """A webhook's position in a session. Times are in milliseconds on the store's clock.

    Args:
        seq: The last event that is done with.
        attempt: How often the next event was tried.
        retry_at: When it is tried again.
        closed: Whether no more events are sent.
        tried_at: When it was tried last.
    """

    seq: int = 0
    attempt: int = 0
    retry_at: int = 0
    closed: bool = False
    tried_at: int = 0


@dataclass(frozen=True, slots=True)
class DeadEvent:
    """An event that could not be delivered to a webhook.

    Args:
        id: The id it was sent with.
        webhook: The webhook.
        sid: The session.
        seq: The seq of the event.
        failed_at: When it was given up, in milliseconds on the store's clock.
        attempts: How often it was tried.
        error: A constant that tells why the last try failed.
        again: Whether its program wants another try.
    """

    id: str
    webhook: str
    sid: str
    seq: int
    failed_at: int
    attempts: int
    error: str
    again: bool = False
