"""The meaning of a call's references for the decision on it: they hold its result, quote texts, and steer it.

The gate decides so on the calls of sessions, and `lockgate policy test` on the calls of its cases.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from bot.tools.base import CallableTool, RefusedCallError
from bot.tools.held.entries import ListEntry
from bot.tools.references import Asked
from policy.document.bounds import Bounds
from policy.document.model import Document, short_digest
from policy.request import Request, TakenEntry

REFERS: Final = "the result of a call with a reference or `_if` is held; `admit` reads it afterwards"


def holds(document: Document, tool: CallableTool, taken: Asked, *, untrusted: bool) -> bool:
    """Say whether a call's result stays out of the context: by policy, by the model's wish, or due to references.

    A tool may return its arguments, and whether a call is made may depend on them. So the result of a call with
    references is held, regardless of its label. If it entered the context, the session would rise where the call is
    made and stay where it is refused (ADR 0008). An identifier behind a handle is no higher than the session. It makes
    the result UNTRUSTED, so that is held unless the session is `untrusted` or the policy spares it (ADR 0063).

    Raises RefusedCallError: the model asks for a result that must be held.
    """
    by_policy = document.holds(tool.name, tool.server)
    if taken.hold is False and by_policy:
        raise RefusedCallError(f"the policy keeps the results of `{tool.name}` out of the context")
    if taken.hold is False and taken.by_text:
        raise RefusedCallError(REFERS)
    enters = untrusted or document.spares(tool.name, tool.server)
    return kept(document, tool, taken) or taken.by_text or (bool(taken.depends) and not enters)


def kept(document: Document, tool: CallableTool, taken: Asked) -> bool:
    """Say whether the result of a call of a tool is held even if it is bounded: by a wish, or by policy."""
    return bool(taken.hold) or document.holds(tool.name, tool.server)


def referring(request: Request, bounds: Bounds, taken: Asked, *, heard: bool) -> Request:
    """Return the request about a call with the texts that it quotes, and with the held values that steer it.

    `heard` says whether the session heard an endorsed value.
    """
    return replace(
        request,
        quotes=taken.quotes and not taken.steers,
        unvouched=bool(taken.steers),
        entry=_worst(bounds, taken.entries.values(), heard=heard),
        entry_bounds=entries_digest(bounds) if taken.entries else "",
    )


def entries_digest(bounds: Bounds) -> str:
    """Return the short digest of the names of entries in the bounds of a tool, empty for none."""
    named = [[role.value, text] for role, _, text in bounds.entries()]
    return short_digest(named) if named else ""


def entry_of(bounds: Bounds, entry: ListEntry, *, heard: bool) -> TakenEntry:
    """Return how an entry that a call takes stands to the bounds of its tool.

    One that a bound names needs nobody to vouch for it: nothing was heard of it, so no other value depends on it.
    """
    if not bounds.hold_entry(entry.role, entry.listed.kind, made=entry.listed.made):
        return TakenEntry.UNBOUND
    return TakenEntry.HEARD if heard else TakenEntry.BOUND


def _worst(bounds: Bounds, entries: Iterable[ListEntry], *, heard: bool) -> TakenEntry | None:
    found = {entry_of(bounds, one, heard=heard) for one in entries}
    return next((one for one in (TakenEntry.UNBOUND, TakenEntry.HEARD, TakenEntry.BOUND) if one in found), None)
