"""What may be asked of a listing of sessions, and a page of the answer."""

from dataclasses import dataclass

from bot.sessions.values import Kind, SessionState
from policy.labels import PUBLIC, Label


@dataclass(frozen=True, slots=True)
class Listed:
    """A question for a page of a principal's sessions whose visibility flows to `reader`.

    `cursor` is that of the page before, empty for the first. `since` leaves out what changed last before that moment,
    in milliseconds on the store's clock. `archived` asks for those that are archived, too.
    """

    principal: str
    reader: Label
    cursor: str = ""
    limit: int = 50
    kind: Kind | None = None
    since: int = 0
    archived: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Sessions, newest first; `cursor` asks for the next page, and is empty when there is none.

    `label` is that of what the page tells, also by what is missing from it. It is UNTRUSTED if a session is or was so
    while the reader could see it, wherever it is now (ADR 0025).
    """

    sessions: tuple[SessionState, ...]
    cursor: str
    label: Label = PUBLIC
