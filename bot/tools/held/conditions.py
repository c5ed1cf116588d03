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

from bot.sessions.background.delegation import SESSION
from bot.sessions.log.events import DeferredResult
from bot.sessions.messages import Endorsed
from bot.tools.base import CallableTool, CallFacts, RefusedCallError, Tool
from bot.tools.held.handles import REFERENCE
from policy.document.model import Document
from policy.request import Effect, ToolFacts

IF: Final = "_if"
"""The argument by which a call depends on a held answer; the gate takes it, no tool sees it."""

ANSWER: Final = "answer"
"""The reference to the answer."""

FIELD: Final = "field"
"""The name of its field."""

NO_CONDITION: Final = f'`{IF}` is written {{"{ANSWER}": "<id>", "{FIELD}": "<name>"}}, with nothing beside it'

NO_ANSWER: Final = (
    'needs the id of a held answer. Call `inspect` with `returns` and `"_hold": true` for one. A reset ends all ids'
)
"""The refusal for any other id. This and the next two depend on the call behind the id, and tell nothing of the answer.
"""

NO_FIELD: Final = f"`{IF}` needs a boolean field of the answer; it has "

NOT_COUNTED: Final = (
    "this answer has more bits than may be endorsed, so it decides on nothing. Ask for one boolean alone, or after the"
    " next message of your user"
)

WRITES_FILES: Final = "write_file"
"""The only tool of this installation that may write on a condition, where all files are read as UNTRUSTED."""

NO_EFFECT: Final = (
    f"this call has no consequences elsewhere, so it takes no `{IF}`. Texts to other people and tools of servers do."
    " Make it without"
)
"""The refusal for other calls. A TRUSTED session could look for their effects, and learn whether they were made."""

UNMET: Final = "the answer that this call depends on is not true, so the call was not made"


@dataclass(frozen=True, slots=True)
class AnswerField:
    """A field of a held answer: a condition of a call, or the place of an entry that it takes."""

    item: DeferredResult
    field: str

    @property
    def endorsed(self) -> tuple[Endorsed, ...]:
        """The charge of the answer, none where nothing is endorsed."""
        return () if self.item.answer is None else self.item.answer.endorsed

    @property
    def value(self) -> JsonValue:
        """Its value, None where the answer is a failure, or was refused or changed by a rule."""
        try:
            answer: JsonValue = json.loads(self.item.text)
        except (ValueError, RecursionError):
            return None
        return answer.get(self.field) if isinstance(answer, dict) else None

    @property
    def told(self) -> str:
        """The condition in words for people who are asked; the answer is not among them."""
        return f"made only if `{self.field}` is true in {self.item.named}"

    def shown(self) -> dict[str, JsonValue]:
        """Return it for people's approval, with the answer."""
        held: JsonValue = {REFERENCE: self.item.ref, "label": str(self.item.label), "holds": self.item.text}
        return {ANSWER: held, FIELD: self.field}


def may_depend(tool: CallableTool) -> bool:
    """Say whether calls of a tool may have a condition: it sends, its server writes, or it writes files.

    Other tools change schedules, memories, skills, workflows or sessions, which sessions are told of.
    """
    elsewhere = bool(tool.server) or tool.name == WRITES_FILES
    return tool.effect is Effect.SEND or (tool.effect is Effect.WRITE and elsewhere)


def check_effect(tool: Tool, facts: ToolFacts, declared: CallFacts, document: Document) -> None:
    """Check that the effect of a call, as its tool declares it, is one that no TRUSTED session here can look for.

    A file that is missing is told with the label of its folder. Raises RefusedCallError: it is another effect.
    """
    if not (facts.consequential and _elsewhere(tool, declared, document)):
        raise RefusedCallError(NO_EFFECT)


def _elsewhere(tool: Tool, declared: CallFacts, document: Document) -> bool:
    if tool.server:
        return True
    if declared.says is not None and declared.says[0].channel == SESSION:
        return False
    if tool.effect is Effect.SEND:
        return True
    return declared.folder is not None and document.folders[declared.folder[0]].label.untrusted


def named_in(tool: CallableTool, given: JsonValue, known: Mapping[str, DeferredResult]) -> AnswerField:
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
    item, fields = answer_in(str(reference[REFERENCE]), known, IF)
    booleans = [name for name, boolean in fields if boolean]
    if field not in booleans:
        raise RefusedCallError(f"{NO_FIELD}{', '.join(f'`{name}`' for name in booleans) or 'none'}")
    return AnswerField(item, field)


def answer_in(
    ref: str, known: Mapping[str, DeferredResult], name: str
) -> tuple[DeferredResult, tuple[tuple[str, bool], ...]]:
    """Return a held answer, with the names of its fields and whether each is a boolean; `name` is the argument for it.

    Raises RefusedCallError: the id is of no answer, or of one that was not counted.
    """
    item = known.get(ref)
    if item is None or item.answer is None:
        raise RefusedCallError(f"`{name}` {NO_ANSWER}")
    if not item.answer.counted:
        raise RefusedCallError(NOT_COUNTED)
    return item, item.answer.fields
