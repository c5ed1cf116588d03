"""Times about questions in words for people: how long one still waits, since when, and until when a grant counts."""

from typing import Final

from bot.core.clock import moment
from bot.sessions import approvals
from bot.sessions.approvals import Approval

FOR_EVER: Final = "no time limit"

_MINUTE: Final = 60_000
_HOUR: Final = 60
_DAY: Final = 24 * 60
_IN_HOURS: Final = 3
"""From this number of hours on, minutes are left out; days alike."""


def left(question: Approval, now: int) -> str:
    """Return the time that a question has left, rounded up; `now` is in milliseconds on the store's clock."""
    if question.endless:
        return FOR_EVER
    return f"{spanned(max(0, question.expires_at - now))} left"


def since(question: Approval, now: int) -> str:
    """Return how long ago a question was asked, behind a comma; nothing where that is not known."""
    return f", {ago(question.asked_at, now)}" if question.asked_at else ""


def ago(then: int, now: int) -> str:
    """Return how long ago a moment was; both are in milliseconds on the store's clock."""
    past = max(0, now - then)
    return "just now" if past < _MINUTE else f"{spanned(past - past % _MINUTE)} ago"


def lasting(approval: Approval) -> str:
    """Return until when a grant counts, in words; times are in UTC."""
    until = 0 if approval.grant is None else approval.grant.until
    return "until this conversation is reset" if until >= approvals.FOR_EVER else f"until {moment(until)} UTC"


def spanned(milliseconds: int) -> str:
    """Return a span of time in minutes, hours or days, rounded up to minutes."""
    minutes = -(-milliseconds // _MINUTE)
    if minutes >= _IN_HOURS * _DAY:
        return f"{minutes // _DAY} days"
    return f"{minutes // _HOUR} h" if minutes >= _IN_HOURS * _HOUR else f"{minutes} min"
