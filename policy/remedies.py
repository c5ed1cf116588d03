"""Which remedies work: each is tried before it is offered.

Rules propose remedies. The engine decides again on the request as it would be made once a remedy was taken, and offers
those alone that meet a milder verdict. Here stand these trials. An operator's correction of a rule, a declaration or a
grant cannot be tried: it is offered because the rule proposes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from policy.decision import Remedy
from policy.labels import Label
from policy.request import Destination, Request, TakenEntry

Trial = Callable[[Request, Label], Request | None]


def taken(remedy: Remedy, request: Request, top: Label) -> Request | None:
    """Return a request as it would be made again once a remedy was taken.

    Args:
        remedy: the remedy that a rule proposes.
        request: the request that was stopped.
        top: the highest label of the configuration.

    Returns: The request to decide on, or None where no person can take the remedy.
    """
    return TRIALS[remedy](request, top)


def _reset(request: Request, _top: Label) -> Request:
    return _anew(request, request.fresh)


def _anew(request: Request, taint: Label) -> Request:
    """Ask in a conversation that has heard nothing yet, so that no place on a list depends on an answer."""
    entry = TakenEntry.BOUND if request.entry is TakenEntry.HEARD else request.entry
    return replace(request, taint=taint, others=None, steered=(), entry=entry)


def _alone(request: Request, _top: Label) -> Request | None:
    """Ask in another conversation, which does not help where no other person spoke."""
    return None if request.others is None else _anew(request, request.fresh)


def _approved(request: Request, _top: Label) -> Request:
    """Have people approve it, which releases a call where they can be asked for that."""
    return replace(request, approved=True, released=request.released or ("people" if request.releasable else ""))


def _confirmed(request: Request, _top: Label) -> Request:
    return replace(request, confirmed=True)


def _elsewhere(request: Request, top: Label) -> Request:
    tool, there = request.tool, request.destination or Destination("", request.channel, None)
    return replace(
        request,
        tool=None if tool is None else replace(tool, clearance=top),
        destination=replace(there, clearance=top),
    )


def _in_private(request: Request, _top: Label) -> Request | None:
    """Ask in a private chat that is cleared for it; a message in a private chat gains nothing by that."""
    there = request.destination
    if there is not None and not there.shared:
        return None
    alone = None if there is None else replace(there, clearance=request.ceiling, shared=False)
    return replace(request, home=request.ceiling, destination=alone)


def _other_model(request: Request, top: Label) -> Request:
    return replace(request, provider=top)


def _reclassified(request: Request, top: Label) -> Request:
    """Raise every clearance that an admin sets; who reads at an address stays as it is."""
    tool, there, sink = request.tool, request.destination, request.sink
    return replace(
        request,
        ceiling=top,
        provider=top,
        home=request.home_readers or top,
        tool=None if tool is None else replace(tool, clearance=top if sink is None else sink.readers or top),
        destination=None if there is None else replace(there, clearance=there.readers or top),
    )


def _readers_cleared(request: Request, _top: Label) -> Request | None:
    """Raise the clearance of the people who read at an address; its classification stays as it is."""
    tool, there, sink = request.tool, request.destination, request.sink
    if tool is not None and sink is not None and sink.raised is not None:
        return replace(request, tool=replace(tool, clearance=sink.raised))
    if there is None or there.raised is None:
        return None
    return replace(request, destination=replace(there, clearance=there.raised))


def _vouched(request: Request, _top: Label) -> Request | None:
    there, home = request.destination, request.home_vouched
    if there is not None and there.vouched is not None:
        return replace(request, destination=replace(there, clearance=there.vouched))
    return None if home is None else replace(request, home=home)


def _classified_lower(request: Request, _top: Label) -> Request | None:
    """Classify a chat for the people who read there: they may then read all that is typed after a reset."""
    return None if request.lowered is None else _anew(request, request.lowered)


TRIALS: Final[Mapping[Remedy, Trial]] = MappingProxyType(
    {
        Remedy.RESET: _reset,
        Remedy.APPROVER: _approved,
        Remedy.CONFIRM: _confirmed,
        Remedy.OTHER_DESTINATION: _elsewhere,
        Remedy.PRIVATE_CHAT: _in_private,
        Remedy.ALONE: _alone,
        Remedy.OTHER_MODEL: _other_model,
        Remedy.RECLASSIFY: _reclassified,
        Remedy.CLEAR_READER: _readers_cleared,
        Remedy.VOUCH: _vouched,
        Remedy.CLASSIFY_LOWER: _classified_lower,
    }
)
"""The remedies that can be tried."""
