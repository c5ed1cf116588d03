"""Rows of the audit in words, the same for the command line and `/audit`, and the row of an unforeseen error."""

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from bot.core.clock import moment
from bot.sessions.audit import AuditRecord, AuditRow

HEADS: Final = ("time (UTC)", "kind", "actor", "account", "hook", "verdict", "rules", "taint")

_FACTS: Final = ("account", "hook", "verdict", "rules", "before")

_CHANGED: Final = ("change", "key", "program")
"""The facts that tell rows about changes of one kind apart."""


def cells(record: AuditRecord) -> tuple[str, ...]:
    """Return the cells of a row in a listing, in the order of `HEADS`; empty for facts that it lacks."""
    facts = {name: _shown(record.body.get(name, "")) for name in _FACTS}
    facts["rules"] = ", ".join(filter(None, (facts["rules"], _logged(record))))
    return moment(record.ts), _kind(record), record.actor, *facts.values()


def told(name: str, record: AuditRecord, in_force: str) -> Iterator[str]:
    """Yield a row in full, under a name; `in_force` is the digest of the policy that is in force."""
    yield f"{name}, {moment(record.ts)} UTC, {record.kind} by {record.actor}"
    for field, value in record.body.items():
        if field == "would":
            yield f"log only: {_logged(record)}"
        elif value not in ("", [], None) and field != "facts":
            yield f"{field}: {_shown(value)}"
    if record.body.get("policy") and record.body["policy"] != in_force:
        yield "the policy was another one then"


def failed(actor: str, sid: str, error: Exception) -> AuditRow:
    """Return the row of an unforeseen error: its kind and the place where it was raised, never its words."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return AuditRow("failed", actor, {"session": sid, "error": type(error).__name__, "where": where})


def _kind(record: AuditRecord) -> str:
    """Return the kind of a row, and for a change the change itself: `key rotate audit`."""
    if "change" not in record.body:
        return record.kind
    return " ".join((record.kind, *(_shown(record.body[name]) for name in _CHANGED if name in record.body)))


def _logged(record: AuditRecord) -> str:
    """Return the results of rules that are `log_only`, each with its rule."""
    would = record.body.get("would")
    return ", ".join(f"{rule} ({word})" for rule, word in would.items()) if isinstance(would, dict) else ""


def _shown(value: JsonValue) -> str:
    if value is None:
        return ""
    return ", ".join(str(inner) for inner in value) if isinstance(value, list) else str(value)
