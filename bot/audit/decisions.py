"""The row of a decision, read back: who asked for which operation, the verdict, and the facts behind it.

`bot.gate.results` and `bot.gate.origins` write such rows. A fact that is missing or of another type reads as absent.
"""

from dataclasses import dataclass
from typing import Final, cast

from bot.core.json_values import JsonObject
from bot.sessions.audit import AuditRecord

_KINDS: Final = frozenset({"decision", "withheld"})
_ERROR: Final = "error"


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision of the gate, as its row tells it.

    Args:
        at: When it was written down, in milliseconds on the store's clock.
        hook: The hook.
        verdict: The name of the verdict.
        rules: The rules that did not simply allow.
        before: The label of the session, as text.
        policy: The digest of the policy that decided.
        tool: The tool that it is about, empty for none.
        facts: The facts behind it, empty in a row that has none.
        applied: The rules that applied, also those that people lifted and those that were `log_only`.
        failed: The rules that could not be evaluated.
        approvers: The roles of the people who were asked, none where the asker was.
    """

    at: int
    hook: str
    verdict: str
    rules: tuple[str, ...]
    before: str
    policy: str
    tool: str
    facts: JsonObject
    applied: frozenset[str]
    failed: frozenset[str]
    approvers: tuple[str, ...]

    @staticmethod
    def of(record: AuditRecord) -> "RecordedDecision | None":
        """Return the decision of a row, None for a row of another kind."""
        if record.kind not in _KINDS:
            return None
        body = record.body
        facts, would = object_of(body.get("facts")), object_of(body.get("would"))
        rules = texts_of(body, "rules")
        applied = (rule for rule, word in would.items() if word != _ERROR)
        failed = (rule for rule, word in would.items() if word == _ERROR)
        return RecordedDecision(
            at=record.ts,
            hook=text_of(body, "hook"),
            verdict=text_of(body, "verdict"),
            rules=rules,
            before=text_of(body, "before"),
            policy=text_of(body, "policy"),
            tool=text_of(body, "tool"),
            facts=facts,
            applied=frozenset({*rules, *texts_of(facts, "lifted"), *applied}),
            failed=frozenset({*texts_of(facts, "failed"), *failed}),
            approvers=texts_of(facts, "approvers"),
        )


def object_of(value: object) -> JsonObject:
    """Return a JSON object, an empty one for another value."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def list_of(found: JsonObject, name: str) -> list[object]:
    """Return a list by its name, an empty one for none."""
    value = found.get(name)
    return list[object](value) if isinstance(value, list) else []


def texts_of(found: JsonObject, name: str) -> tuple[str, ...]:
    """Return a list of texts by its name, none for none."""
    return tuple(str(one) for one in list_of(found, name))


def text_of(found: JsonObject, name: str) -> str:
    """Return a text by its name, an empty one for none."""
    value = found.get(name, "")
    return value if isinstance(value, str) else ""


def number_of(found: JsonObject, name: str) -> int:
    """Return a number by its name, 0 for none."""
    value = found.get(name, 0)
    return value if isinstance(value, int) else 0
