"""Conditions of calls: with `_if` a call is made only if a field of a held answer is true.

A person may say: book the flight if the page offers a meal. The session learns the answer by `inspect`, and from then
on all that its calls do may depend on it, so people are asked (law `endorsed_cannot_steer`). With `_hold` the answer
stays out, and `_if` lets it decide on a call that was fixed in full before. The answer chooses whether the call is
made, and no value of it (ADR 0069).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from bot.sessions.background.delegation import SESSION, FieldKind, ResultField
from bot.sessions.log.events import DeferredResult
from bot.tools.base import CallFacts, RefusedCallError, Tool
from bot.tools.held.handles import REFERENCE
from policy.document.model import Document
from policy.request import Effect

IF: Final = "_if"
"""The argument by which a call depends on a held answer; the gate takes it, no tool sees it."""

ANSWER: Final = "answer"
"""The reference to the answer."""

FIELD: Final = "field"
"""The name of its field."""

NO_CONDITION: Final = f'`{IF}` is written {{"{ANSWER}": "<id>", "{FIELD}": "<name>"}}, with nothing beside it'

NO_ANSWER: Final = (
    f"`{IF}` needs the id of a held answer of `inspect`, and a boolean field of it. Call `inspect` with `returns` and"
    ' `"_hold": true` for one'
)
"""The refusal for any other id or field. It depends on the call behind the id alone, so it tells nothing of the answer.
"""

WRITES_FILES: Final = "write_file"
"""The only tool of this installation that may write on a condition, where all files are read as UNTRUSTED."""

NO_EFFECT: Final = (
    f"`{IF}` is for calls that others notice, and that change nothing here but a file of a folder that is UNTRUSTED"
)
"""The refusal for other calls. A TRUSTED session could see by what is there, or is missing, whether they were made."""

UNMET: Final = "the condition of this call does not hold, so it was not made"


@dataclass(frozen=True, slots=True)
class Condition:
    """A field of a held answer that must be true."""

    item: DeferredResult
    field: str

    @property
    def met(self) -> bool:
        """Whether the field is true; it is not where the answer is a failure, or was refused or changed by a rule."""
        try:
            answer: JsonValue = json.loads(self.item.text)
        except (ValueError, RecursionError):
            return False
        return isinstance(answer, dict) and answer.get(self.field) is True

    def shown(self) -> dict[str, JsonValue]:
        """Return the condition for people's approval, with the answer."""
        held: JsonValue = {REFERENCE: self.item.ref, "label": str(self.item.label), "holds": self.item.text}
        return {ANSWER: held, FIELD: self.field}


def may_depend(tool: Tool) -> bool:
    """Say whether calls of a tool may have a condition: it sends, its server writes, or it writes files.

    Other tools that write change what sessions are told: schedules, memories, skills, workflows, sessions.
    """
    elsewhere = bool(tool.server) or tool.name == WRITES_FILES
    return tool.effect is Effect.SEND or (tool.effect is Effect.WRITE and elsewhere)


def leaves(tool: Tool, declared: CallFacts, document: Document) -> bool:
    """Say whether a call may have a condition, as its tool declares it: no TRUSTED session misses what it would do.

    A session is none of the others. A file that is missing is told with the label of its folder.
    """
    if tool.server:
        return True
    if declared.says is not None and declared.says[0].channel == SESSION:
        return False
    if tool.effect is Effect.SEND:
        return True
    return declared.folder is not None and document.folders[declared.folder[0]].label.untrusted


def answers(fields: tuple[ResultField, ...]) -> tuple[str, ...]:
    """Return the names of the fields of an answer that a condition may name."""
    return tuple(field.name for field in fields if field.kind is FieldKind.BOOLEAN)


def named_in(tool: Tool, given: JsonValue, known: Mapping[str, DeferredResult]) -> Condition:
    """Return the condition that a call of a tool names, among the items that are held.

    Raises RefusedCallError: it is malformed, names no answer or no such field of it, or the tool has no effect.
    """
    if not may_depend(tool):
        raise RefusedCallError(NO_EFFECT)
    if not isinstance(given, dict) or given.keys() != {ANSWER, FIELD}:
        raise RefusedCallError(NO_CONDITION)
    reference, field = given[ANSWER], given[FIELD]
    if not isinstance(reference, dict) or reference.keys() != {REFERENCE} or not isinstance(field, str):
        raise RefusedCallError(NO_CONDITION)
    item = known.get(str(reference[REFERENCE]))
    if item is None or field not in item.answers:
        raise RefusedCallError(NO_ANSWER)
    return Condition(item, field)
