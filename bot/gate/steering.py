"""The values that steer a call, against the bounds that the operator gives to their roles."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Final, TypeAlias

from bot.access.decision_context import DecisionContext
from bot.core.invisible import in_code
from bot.gate.references import entry_of
from bot.gate.results import CallDecision
from bot.sessions.log.events import DeferredResult
from bot.tools.arguments import Steering, as_json, steering
from bot.tools.base import Arguments
from policy.document.bounds import AmountBound, Bounds, in_digits, number_of
from policy.document.model import Document, short_digest
from policy.request import ArgumentRole, SteeredRole, TakenEntry

_ROLES: Final = (*ArgumentRole, None)

Within: TypeAlias = Mapping[tuple[ArgumentRole | None, str], bool]
"""Whether entries of held lists are within their bounds, by the roles of their arguments and the names in them."""

NO_ENTRIES: Final[Within] = MappingProxyType({})


def steered(document: Document, tool: str, arguments: Arguments, now: int) -> tuple[SteeredRole, ...]:
    """Return the roles whose values steer a call of checked arguments, of which those that are given count.

    `now` is the time of the decision, in milliseconds.
    """
    return judged(document, tool, _given(arguments), _day(now))


def judged(document: Document, tool: str, found: Iterable[Steering], today: date) -> tuple[SteeredRole, ...]:
    """Return the roles of values that steer a call, each with whether all its values are within its bound."""
    bounds = document.bounds(tool)
    return tuple(
        SteeredRole(role, outside=any(_is_outside(one, bounds, today) for one in values), bound=digest(bounds, role))
        for role, values in _by_role(found)
    )


def digest(bounds: Bounds, role: ArgumentRole | None) -> str:
    """Return the short digest of the bound of a role, empty for none."""
    bound = bounds.of(role)
    return "" if bound is None else short_digest(bound)


def in_words(document: Document, tool: str, arguments: Arguments, now: int, *, within: Within = NO_ENTRIES) -> str:
    """Return the values that steer a call as people are told them: how many in each role, how many out of bounds.

    An amount is told as the highest one. Empty where nothing steers the call. The arguments have names in place of the
    entries of held lists, and `within` tells which of these are within their bounds.
    """
    bounds, today = document.bounds(tool), _day(now)

    def outside(one: Steering) -> bool:
        known = within.get((one.role, str(one.value)))
        return _is_outside(one, bounds, today) if known is None else not known

    return "; ".join(
        _words(role, values, bounds, sum(map(outside, values))) for role, values in _by_role(_given(arguments))
    )


def within_bounds(document: Document, standing: DecisionContext, made: CallDecision) -> Within:
    """Return which entries of held lists that a call takes are within their bounds, by their roles and names.

    None is where an endorsed value was heard: that may depend on the list, and the place on it.
    """
    bounds = document.bounds(made.call.tool)
    return {
        (one.role, one.name): entry_of(bounds, one, heard=bool(standing.endorsed)) is TakenEntry.BOUND
        for one in made.entries
    }


def vouched(role: ArgumentRole, held: DeferredResult) -> str:
    """Return a held value that steers a call as people are shown it: whole, in ASCII, and as code, with its call."""
    return f"{role.value} {in_code(json.dumps(held.text))}, {held.named}"


def _words(role: ArgumentRole | None, values: tuple[Steering, ...], bounds: Bounds, outside: int) -> str:
    several, bound = len(values), bounds.of(role)
    told = f"{several} {'value' if role is None else role.value}{'s' * (several > 1)}"
    told += " without a role" if role is None else ""
    if bound is not None:
        told += (
            f", {outside} of them outside the bounds"
            if several > 1 and outside
            else f", {'outside' if outside else 'within'} the bounds"
        )
    amounts = [number for one in values if (number := number_of(one.value)) is not None]
    if role is ArgumentRole.AMOUNT and len(amounts) == several:
        told += f", up to {in_digits(max(amounts))}" + (
            f" {bound.unit}" if isinstance(bound, AmountBound) and bound.unit else ""
        )
    return told


def _given(arguments: Arguments) -> tuple[Steering, ...]:
    return steering(type(arguments), as_json(arguments, given=True))


def _by_role(found: Iterable[Steering]) -> list[tuple[ArgumentRole | None, tuple[Steering, ...]]]:
    listed = tuple(found)
    grouped = [(role, tuple(one for one in listed if one.role is role)) for role in _ROLES]
    return [(role, values) for role, values in grouped if values]


def _is_outside(one: Steering, bounds: Bounds, today: date) -> bool:
    return not bounds.hold(one.role, one.value, today)


def _day(now: int) -> date:
    return datetime.fromtimestamp(now / 1000, UTC).date()
