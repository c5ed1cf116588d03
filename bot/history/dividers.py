"""Dividers of a transcript: the places where the label of a session changed, each with the cause.

A divider is an event of the log like any other, and has a label: that of the taint it leads to. So readers who may not
know the new taint learn neither the cause nor that anything came (law `no_read_up`). A taint never falls within a
generation (law `taint_never_falls`): a reset begins the next one, and a release lets one text leave below its label.

The cause is text of a log that may have been imported. So it is told in one short line, and cannot be taken for another
entry.
"""

from typing import Final

from bot.core.invisible import spelled
from bot.sessions.log.event_types import ReleaseConfirmed, SessionReset, TaintRaised
from bot.sessions.log.events import Event
from policy.labels import PUBLIC

RAISED: Final = "── taint {before} → {after} by {cause} ──"
RESET: Final = "── begun anew by {actor}, taint {taint} ──"
RELEASED: Final = "── message {place}, {label}, released to {recipient} by {actor} ──"

_LONGEST: Final = 80
_MESSAGE: Final = "message"
"""The recorded cause where a person's message raised the taint."""


def is_divider(event: Event) -> bool:
    """Say whether an event is a divider: there are few of them, as a taint only rises."""
    return isinstance(event.body, TaintRaised | SessionReset | ReleaseConfirmed)


def divider(event: Event) -> str:
    """Return the line of a divider, empty for any other event. The caller has compared its label with the reader."""
    match event.body:
        case TaintRaised(before=before, after=after, cause=cause):
            return RAISED.format(before=before, after=after, cause="a message" if cause == _MESSAGE else _short(cause))
        case SessionReset():
            return RESET.format(actor=_short(event.actor), taint=PUBLIC)
        case ReleaseConfirmed(release=release):
            recipient, actor = _short(release.recipient), _short(release.principal)
            return RELEASED.format(place=release.source, label=release.label, recipient=recipient, actor=actor)
        case _:
            return ""


def _short(text: str) -> str:
    line = spelled(" ".join(text.split()))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
