"""Webhooks as values: where a program has events of its sessions sent, how far that came, and what was never taken.

What is sent is not stored here: the log is what there is to send, and a position tells up to which event it was. So a
webhook costs a session nothing until it is looked at, and no event can be lost between two records.
"""

from dataclasses import dataclass
from enum import StrEnum

from bot.core.ids import webhook_event_id
from bot.sessions.log.events import Event, Visibility

UNAVAILABLE = "session.unavailable"
"""The type of the one constant event that ends what a webhook hears of a session that rose above its reader."""


class Ended(StrEnum):
    """Why nothing is sent to a webhook any more: it answered 410, or it failed for days."""

    GONE = "gone"
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class ProgramWebhook:
    """Where events are sent to.

    `owner` is the program's principal. Events of the `level` at least, of these `types` and `sessions`, are sent; no
    types and no sessions stand for all. `failing` is since when nothing was taken, 0 for a webhook that works.
    `disabled` is why nothing is sent any more, and `enabled_at` when it was enabled again. `wanted_at` is when its
    program last wanted something tried once more that was not taken. Times are in milliseconds on the store's clock;
    nothing older than `created_at` is sent.
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
        """Return the id under which an event of a session is sent here, each time; 0 is the one that ends it."""
        return webhook_event_id(self.id, sid, seq)


@dataclass(frozen=True, slots=True)
class WebhookPosition:
    """How far a webhook came in a session: events up to `seq` are done with.

    The next was tried `attempt` times, the last of them at `tried_at`, and is tried again at `retry_at`. After `closed`
    nothing is sent any more.
    """

    seq: int = 0
    attempt: int = 0
    retry_at: int = 0
    closed: bool = False
    tried_at: int = 0


@dataclass(frozen=True, slots=True)
class DeadEvent:
    """An event that a webhook did not take, however often it was tried: `id` is the one that it was sent with.

    `error` is a constant that tells why the last try failed. `again` says that its program wants it to be tried once
    more.
    """

    id: str
    webhook: str
    sid: str
    seq: int
    failed_at: int
    attempts: int
    error: str
    again: bool = False
