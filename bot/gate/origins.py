"""The facts behind a decision, for its audit row: as much as another policy needs to decide the same request again.

They are names, labels and flags, and never content: no text, no argument and no digest of one. Only the operator of an
installation reads them, as they name the readers of an address; `bot.audit.visibility` leaves them out for people in
chats. Omitted facts have their defaults. `bot.operations.rehearsal.rehearsal` reads them.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from bot.access import authorize, labelling
from bot.access.decision_context import DecisionContext
from bot.tools.base import CallFacts
from policy.decision import Decision
from policy.document.model import Document
from policy.fixed import APPROVED
from policy.labels import PUBLIC, Label
from policy.request import DeclaredCall, Destination, Hook, Request, RequestOrigin, RunState, ToolFacts
from policy.rules import NOT_EVALUATED

_SHORT: Final = 12
_CALLS: Final = frozenset({Hook.PRE_TOOL_CALL, Hook.MCP_TOOL_CALL})

_Facts = dict[str, JsonValue]


def begun_from(document: Document, standing: DecisionContext, model: str) -> RequestOrigin:
    """Return the facts behind the requests of a session; `model` is the one whose clearance counts."""
    known = labelling.ceiling(document, standing.principal, standing.asker)
    given = authorize.role(document, standing.principal, standing.asker)
    return RequestOrigin(
        now=standing.now,
        home=str(standing.home),
        there=standing.destination,
        model=model,
        bound=None if standing.ceiling == known else standing.ceiling,
        role=None if standing.role is given else standing.role,
        others=tuple(sorted(standing.others)),
    )


def asked_of(request: Request, *, model: str = "", transcriber: str = "") -> Request:
    """Return a request with another model, or a transcriber, whose clearance counts."""
    origin = request.origin
    if origin is None:
        return request
    return replace(request, origin=replace(origin, model=model or origin.model, transcriber=transcriber))


def declared_by(request: Request, known: ToolFacts, declared: CallFacts) -> Request:
    """Return the request about a call with the facts as its tool declared them."""
    place = declared.tells if declared.says is None else declared.says[0]
    call = DeclaredCall(known, declared.result, declared.folder, "" if place is None else str(place))
    return request if request.origin is None else replace(request, origin=replace(request.origin, call=call))


def facts(decision: Decision) -> JsonValue:
    """Return the facts behind a decision for its audit row."""
    told: _Facts = {"rules": decision.parts.rules, "places": decision.parts.places, "labels": decision.parts.labels}
    told |= _given(
        lifted=[outcome.rule for outcome in decision.outcomes if outcome.message == APPROVED],
        failed=[outcome.rule for outcome in decision.outcomes if outcome.message == NOT_EVALUATED],
        approvers=[role.value for role in decision.approvers],
    )
    if decision.requests:
        told |= _session(decision.requests[0])
        told["asked"] = [_question(request, decision.label_before) for request in decision.requests]
    return told


def same_facts(request: Request) -> str:
    """Return a short digest of the facts that rules see of a request, but for its content and an approval of it.

    Facts that only tell which remedies would help are left out.
    """
    there, others = request.destination, request.others
    seen = (
        request.hook.value,
        request.principal,
        request.role.value,
        request.channel,
        *map(str, (request.taint, request.ceiling, request.provider, request.home, request.item, request.carried)),
        None if request.tool is None else _tool_cells(request.tool),
        None if there is None else (there.address, there.channel, str(there.clearance), there.shared),
        None if request.secret is None else (request.secret.name, request.secret.granted),
        request.overshoot,
        request.confirmed,
        request.released,
        request.held,
        request.asker,
        request.asker_role.value,
        sorted(request.principal_groups),
        sorted(request.asker_groups),
        None if others is None else (str(others.clearance), sorted(role.value for role in others.roles)),
        request.run,
        *([_steered(request)] if request.steered else ()),
        *(["quotes"] if request.quotes else ()),
        *(["unvouched"] if request.unvouched else ()),
        *([f"entry {request.entry.value}"] if request.entry is not None else ()),
        # Absent where it says nothing, so that older records keep their digests.
        *((True,) if request.releasable else ()),
    )
    return hashlib.sha256(repr(seen).encode("utf-8", "surrogatepass")).hexdigest()[:_SHORT]


def _tool_cells(tool: ToolFacts) -> tuple[object, ...]:
    roles = None if tool.roles is None else sorted(role.value for role in tool.roles)
    told = (tool.name, tool.effect.value, str(tool.result), str(tool.clearance), tool.consequential, tool.server, roles)
    # A call without them has the digest that it had before they were known.
    beyond = (str(tool.raises), tool.shows) if tool.shows or tool.raises != PUBLIC else ()
    return (*told, *beyond, *(("spared",) if tool.spared else ()))


def _given(**named: JsonValue) -> _Facts:
    """Return facts without those that are empty, false or unknown."""
    return {name: value for name, value in named.items() if value not in ("", None, False, [], {})}


def _session(request: Request) -> _Facts:
    """Return the facts that all requests of a decision share."""
    origin = request.origin
    told = _given(principal=request.principal, asker=request.asker, run=_run(request.run))
    if origin is None:
        return told
    return told | _given(
        at=origin.now,
        home="" if origin.home == origin.there.address else origin.home,
        there=_place(origin.there),
        bound=_label(origin.bound),
        role=None if origin.role is None else origin.role.value,
        others=list(origin.others),
    )


def _run(run: RunState | None) -> JsonValue:
    if run is None:
        return None
    return {"initialized": run.initialized, "stopped": run.stopped, "paused": run.paused}


def _question(request: Request, before: Label) -> _Facts:
    origin = request.origin
    return {
        "hook": request.hook.value,
        "same": same_facts(request),
        **_given(
            taint=None if request.taint == before else str(request.taint),
            item=_label(request.item),
            to=_destination(request),
            tool=_tool(request),
            secret=None if request.secret is None else {"name": request.secret.name, "granted": request.secret.granted},
            model="" if origin is None else origin.model,
            transcriber="" if origin is None else origin.transcriber,
            lifts=list(request.lifts),
            confirmed=request.confirmed,
            released=request.released,
            releasable=request.releasable,
            held=request.held,
            carried=None if request.carried == PUBLIC else str(request.carried),
            steered=_steered_facts(request),
            quotes=request.quotes,
            unvouched=request.unvouched,
            entry="" if request.entry is None else request.entry.value,
            entry_bounds=request.entry_bounds,
        ),
    }


def _steered(request: Request) -> list[tuple[str, bool]]:
    """Return the roles that steer a call, as rules see them."""
    return [("" if one.role is None else one.role.value, one.outside) for one in request.steered]


def _steered_facts(request: Request) -> JsonValue:
    return [
        _given(role="" if one.role is None else one.role.value, outside=one.outside, bound=one.bound)
        for one in request.steered
    ]


def _destination(request: Request) -> JsonValue:
    """Return the destination of an output; the home is not named again."""
    there, home = request.destination, None if request.origin is None else request.origin.there
    if there is None:
        return None
    return {"home": True} if home is not None and there == home and there.listed == home.listed else _place(there)


def _place(place: Destination) -> _Facts:
    """Return an address with its readers, as their kinds name them."""
    told = _given(address=place.address, channel=place.channel, shared=place.shared)
    listed = place.listed
    if listed is None:
        return told
    if listed.many:
        return told | _given(many=True, clearance=_label(place.clearance))
    readers: _Facts = {"readers": _by_kind(listed.accounts)}
    return told | readers | _given(partial=not listed.complete)


def _by_kind(accounts: Iterable[tuple[str, str]]) -> _Facts:
    told = dict[str, list[JsonValue]]()
    for account, kind in accounts:
        told.setdefault(kind, []).append(account)
    return {kind: list(named) for kind, named in told.items()}


def _tool(request: Request) -> JsonValue:
    """Return a call's tool as it declared itself, or for another request as it was asked about."""
    tool, origin = request.tool, request.origin
    if tool is None:
        return None
    call = None if origin is None else origin.call
    if call is None or request.hook not in _CALLS:
        return _facts_of(tool)
    folder: JsonValue = None if call.folder is None else {"name": call.folder[0], "beside": str(call.folder[1])}
    return _facts_of(call.tool) | _given(adds=str(call.result), folder=folder, place=call.place)


def _facts_of(tool: ToolFacts) -> _Facts:
    return _given(
        name=tool.name,
        effect=tool.effect.value,
        result=_label(tool.result),
        clearance=_label(tool.clearance),
        consequential=tool.consequential,
        server=tool.server,
        asks=tool.asks,
        raises=None if tool.raises == PUBLIC else str(tool.raises),
        shows=tool.shows,
        spared=tool.spared,
        identifier=tool.identifier,
    )


def _label(label: Label | None) -> str | None:
    return None if label is None else str(label)
