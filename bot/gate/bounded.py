"""Bounded answers of calls that refer to held items: where one enters the context, and with which label.

Such a call is decided openly on the known parts of its items' labels. Its answer enters if all of the items flow to the
label that the session has once the call is allowed. Any other result is held, in the same way for a success and a
failure.
"""

import hashlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from bot.access import labelling
from bot.access.decision_context import Call, DecisionContext, key
from bot.gate.results import CallDecision
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import FieldKind
from bot.sessions.log.event_types import HeldAnswer
from bot.sessions.messages import Endorsed
from bot.tools.base import Result
from bot.tools.held.entries import ListEntry
from policy.labels import Label

if TYPE_CHECKING:
    from pydantic import JsonValue


def arrival(prepared: CallDecision, result: Result) -> Label | None:
    """Return the label with which a bounded answer enters the context, None for a result that does not.

    Its level is the session's own, with the raise that the call declared, so it tells nothing of the items. Its
    integrity is that of the session before the call, which gave the fields.
    """
    answer, after = result.bounded, prepared.told.label_after
    found = result.label.join(prepared.carried)
    if answer is None or answer.beyond or not prepared.returns or not found.flows_to(after):
        return None
    return labelling.bounded(after.join(found), prepared.told.label_before)


_DECIDED: Final = "whether a call was made"
"""Stands for a held answer that decided on a call, of which nothing else may be told."""


_TAKEN: Final = "which entry of a held list a call took"
"""Stands for an entry, of which nothing else may be told."""

_CHARGE: Final = 16
"""Characters of the id of a charge."""


def charges(standing: DecisionContext, call: Call, entries: Collection[ListEntry]) -> tuple[Endorsed, ...]:
    """Return the charges for the entries of held lists that a call takes; none for an UNTRUSTED session.

    They depend on the call alone, and the same call is charged once.
    """
    if not entries or standing.taint.untrusted:
        return ()
    name = f"entry/{key(standing, call)}".encode("utf-8", "surrogatepass")
    run, bits = hashlib.sha256(name).hexdigest()[:_CHARGE], sum(entry.millibits for entry in entries)
    return (Endorsed(standing.sid, _TAKEN, run, bits),) if bits else ()


def answered(sid: str, prepared: CallDecision, result: Result) -> HeldAnswer | None:
    """Return the facts of a held result as a bounded answer of a session, None for any other result."""
    if result.bounded is None:
        return None
    fields = tuple((field.name, field.kind is FieldKind.BOOLEAN) for field in prepared.fields)
    return HeldAnswer(fields, not result.bounded.beyond, endorsement(sid, result, _DECIDED))


def endorsement(sid: str, result: Result, text: str) -> tuple[Endorsed, ...]:
    """Return the record of an endorsed answer of a session, none where nothing is endorsed."""
    answer = result.bounded
    if answer is None or not answer.endorsed:
        return ()
    return (Endorsed(sid, text, answer.run, answer.millibits),)


def spent_rows(standing: DecisionContext, prepared: CallDecision, result: Result) -> tuple[AuditRow, ...]:
    """Return the audit row of the real use of models by a call, which has the label of its result; none without it."""
    usage = result.spent
    if usage is None:
        return ()
    label = result.label.join(prepared.label).join(prepared.carried)
    used: dict[str, JsonValue] = {
        "requests": usage.requests,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "complete": usage.complete,
    }
    return (AuditRow("inspected", standing.asker, {"call": prepared.call.id, "label": str(label), **used}),)
