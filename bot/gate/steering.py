"""The values that steer a call, against the bounds that the operator gives to their roles."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Final, TypeAlias

from bot.access.decision_context import DecisionContext
from bot.core.invisible import in_code
from bot.gate.results import CallDecision
from bot.sessions.log.events import DeferredResult
from bot.tools.arguments import Steering, as_json, steering
from bot.tools.base import Arguments
from policy.document.bounds import AmountBound, Bounds, in_digits, number_of
from policy.document.model import Document, short_digest
from policy.request import ArgumentRole, Request, SteeredRole

_ROLES: Final = (*ArgumentRole, None)

Within: TypeAlias = Mapping[tuple[ArgumentRole | None, str], bool]
"""Whether entries of held lists are within their bounds, by the roles of their arguments and the names in them."""

NO_ENTRIES: Final[Within] = MappingProxyType({})


def with_steering(
    document: Document,
    standing: DecisionContext,
    request: Request,
    *,
    tool: str,
    arguments: Arguments,
    made: CallDecision,
) -> Request:
    """Return the request about a call with the values that steer it, where that matters.

    The call `made` has the held values that steer it. An entry of a held list within the bound of its role needs nobody
    to vouch for it: nothing was heard of it, so no other value depends on it.
    """
    if made.steers or not all(within_bounds(document, standing, made).values()):
        request = replace(request, unvouched=True)
    return replace(request, steered=steered(document, tool, arguments, standing.now)) if standing.endorsed else request


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
        (one.role, one.name): not standing.endorsed
        and bounds.hold_entry(one.role, one.listed.kind, made=one.listed.made)
        for one in made.entries
    }


def vouched(role: ArgumentRole, held: DeferredResult) -> str:
    """Return a held value that steers a call as people are shown it: whole, in ASCII, and as code."""
    return f"{role.value} {in_code(json.dumps(held.text))}"


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
