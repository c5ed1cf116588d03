"""The values that steer a call, against the bounds that the operator gives to their roles."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Final

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
    to vouch for it. Nothing was heard of it, so no other value depends on it. Where an endorsed value was heard, its
    name among the arguments has to be within the bound as well.
    """
    chosen = judged(document, tool, (Steering((), one.role, one.unheard) for one in made.entries), _day(standing.now))
    if made.steers or any(one.outside for one in chosen):
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
        SteeredRole(role, outside=_outside(values, bounds, today) > 0, bound=digest(bounds, role))
        for role, values in _by_role(found)
    )


def digest(bounds: Bounds, role: ArgumentRole | None) -> str:
    """Return the short digest of the bound of a role, empty for none."""
    bound = bounds.of(role)
    return "" if bound is None else short_digest(bound)


def in_words(document: Document, tool: str, arguments: Arguments, now: int) -> str:
    """Return the values that steer a call as people are told them: how many in each role, how many out of bounds.

    An amount is told as the highest one. Empty where nothing steers the call.
    """
    bounds, today = document.bounds(tool), _day(now)
    return "; ".join(_words(role, values, bounds, today) for role, values in _by_role(_given(arguments)))


def vouched(role: ArgumentRole, held: DeferredResult) -> str:
    """Return a held value that steers a call as people are shown it: whole, in ASCII, and as code."""
    return f"{role.value} {in_code(json.dumps(held.text))}"


def _words(role: ArgumentRole | None, values: tuple[Steering, ...], bounds: Bounds, today: date) -> str:
    several, bound = len(values), bounds.of(role)
    told = f"{several} {'value' if role is None else role.value}{'s' * (several > 1)}"
    told += " without a role" if role is None else ""
    if bound is not None:
        outside = _outside(values, bounds, today)
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


def _outside(values: Iterable[Steering], bounds: Bounds, today: date) -> int:
    return sum(not bounds.hold(one.role, one.value, today) for one in values)


def _day(now: int) -> date:
    return datetime.fromtimestamp(now / 1000, UTC).date()
