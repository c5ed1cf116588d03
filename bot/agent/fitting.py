"""Results that are larger than the room that is left: the model reads the beginning, and a mark tells how to read on.

The whole is held under a reference with the label of the result, which has entered the session by then. So the part
that is shown tells nothing that the rest would not, and a rule that looked at the result has looked at all of it.
"""

from dataclasses import dataclass
from typing import Final

from bot.access.decision_context import Call, DecisionContext, key
from bot.core.ids import held_id
from bot.sessions.log.events import DeferredResult
from bot.tools.references import ADMIT
from policy.labels import Label

MARK: Final = (
    "\n[these are the characters {first} to {last} of {all}; "
    '`{admit}` with {{"ref": "{ref}", "after": {last}}} reads on]'
)
CUT: Final = "\n[these are the first {last} of {all} characters; ask for less at once to see the rest]"

_LEAST: Final = 200
"""Characters of a result that are shown however little room is left."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The part of a result that a model reads. `held` is the whole, None if it is held already or cannot be read on."""

    text: str
    held: DeferredResult | None = None


def fitted(standing: DecisionContext, call: Call, text: str, *, label: Label, room: int, reads_on: bool) -> Fitted:
    """Return the part of a call's result that a model reads: all of it, or as much as has room.

    `text` is the result itself, never the notice of a held one. `room` is in characters. `reads_on` tells whether the
    model is offered `admit`. A part of a held item leads on in that item; any other result is to be held as a whole,
    once.
    """
    if len(text) <= max(room, _LEAST):
        return Fitted(text)
    source, first = _source(standing, call, text)
    held = source or DeferredResult(held_id(key(standing, call)), text, label, label, tool=call.tool, at=standing.now)
    names = {"admit": ADMIT, "ref": held.ref, "all": len(held.text), "first": first + 1}
    mark = MARK if reads_on else CUT
    last = first + max(room - len(mark.format(last=len(held.text), **names)), _LEAST)
    shown = f"{held.text[first:last]}{mark.format(last=last, **names)}"
    return Fitted(shown, held if reads_on and source is None else None)


def _source(standing: DecisionContext, call: Call, text: str) -> tuple[DeferredResult | None, int]:
    """Return which held item a text is of, and after how many of its characters it begins; None for one of none."""
    known = {one.ref: one for one in standing.held}
    whole = known.get(held_id(key(standing, call)))
    if whole is not None:
        # It was shortened before, when there was more room.
        return whole, 0
    if call.tool == ADMIT and call.arguments is not None:
        held, after = known.get(str(call.arguments.get("ref"))), call.arguments.get("after", 0)
        # Where a rule has replaced something in it, its places are others by now.
        if held is not None and isinstance(after, int) and held.text[after:] == text:
            return held, after
    return None, 0
