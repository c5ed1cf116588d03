"""Groups and ends of access in words: lines of `/policy show`, and notes of `lockgate doctor`."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from bot.core.clock import moment
from bot.operations.diagnostics import Diagnosis
from policy.document.entries import Group
from policy.document.groups import ended
from policy.document.model import Document

_SOON: Final = timedelta(days=7)


def written(until: datetime) -> str:
    """Return an end of access as people read it, in UTC."""
    return f"{moment(round(until.timestamp() * 1000))} UTC"


def people(document: Document) -> Iterator[str]:
    """Yield a line for each group and each end of an access, for readers of the configuration."""
    for name, group in sorted(document.groups.items()):
        members = (one.name if one.until is None else f"{one.name} until {written(one.until)}" for one in group.members)
        yield f"- group {name}{_grants(group)}: {', '.join(members) or 'no members'}"
    for name, person in sorted(document.principals.items()):
        if person.until is not None:
            yield f"- access of {name} ends {written(person.until)}"


def _grants(group: Group) -> str:
    told = (
        None if group.clearance is None else f"cleared for {group.clearance}",
        None if group.role is None else f"at least {group.role}",
        "may release" if group.may_release else None,
    )
    given = [one for one in told if one is not None]
    return f" ({', '.join(given)})" if given else ""


def ending(file: Document, now_ms: int) -> list[Diagnosis]:
    """Return a note for each access and membership that ended, or ends within a week.

    Args:
        file: The policy of the file.
        now_ms: The time in milliseconds on the store's clock.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    ends = [
        *((f"access of `{name}`", f"principals.{name}", one.until) for name, one in sorted(file.principals.items())),
        *(
            (f"membership of `{one.name}` in `{name}`", f"groups.{name}.members", one.until)
            for name, group in sorted(file.groups.items())
            for one in group.members
        ),
    ]
    return [
        Diagnosis(what, note=_told(until, now, place))
        for what, place, until in ends
        if until is not None and now >= until - _SOON
    ]


def _told(until: datetime, now: datetime, place: str) -> str:
    if ended(until, now):
        return f"ended {written(until)}, remove the entry of `policy.{place}` or give it another `until`"
    return f"ends {written(until)}, give the entry of `policy.{place}` another `until` if it is needed longer"
