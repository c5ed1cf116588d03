"""Sparing a TRUSTED session an UNTRUSTED result (`hold: untrusted`): its level enters, and of its text a skeleton.

The level and compartments are admitted with the call, decided like a read. The text is held. The model reads a notice,
and a skeleton if the tool describes its result (`bot.tools.held.skeletons`). The bits that third parties may put into a
skeleton are charged like a bounded answer's (ADR 0017), for the call and not for its result. A result that fails, is
refused, does not fit or proves higher costs the same, is heard as well, and shows the notice alone.
"""

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from bot.access.decision_context import DecisionContext, key
from bot.gate.judge import Judge
from bot.gate.results import CallDecision, ResultDecision
from bot.gate.services import Minter
from bot.sessions.log.event_types import HeldPart
from bot.sessions.log.events import DeferredResult
from bot.sessions.messages import Endorsed
from bot.tools.base import Result
from bot.tools.held.handles import REFERENCE, named
from bot.tools.held.skeletons import Piece, Shape, ShowsParts, drawn, empty, in_force, is_constant, millibits, unbounded
from bot.tools.references import notice
from policy.decision import Verdict
from policy.document.model import Document

_CHARGE: Final = 16
"""Characters of the id of a charge."""

_BRIEF: Final = 300
"""Characters of a skeleton in a question to people."""

SHOWN: Final = (
    "These parts of it may be shown. A reference stands for a text. A name that ends in a number and four letters"
    " stands for an identifier. Give it to tools of the same server:"
)

NONE_SHOWN: Final = "no part of it was shown"
"""Stands in a question to people for the skeleton of a result that has none."""


class Sparing:
    """Shows skeletons in place of spared results."""

    def __init__(self, judge: Judge, minter: Minter) -> None:
        self._judge = judge
        self._minter = minter

    async def shown(
        self,
        standing: DecisionContext,
        prepared: CallDecision,
        result: Result,
        response: ResultDecision,
        *,
        held: DeferredResult,
    ) -> ResultDecision:
        """Return the response to a spared call: its result is `held`, and the model reads a notice or a skeleton."""
        entered = standing.taint.join(prepared.label.secrecy)
        told = notice(held, entered)
        plain = replace(response, text=told, label=entered, held=held, acknowledge=())
        for number, shape in enumerate(shapes(self._judge.document, prepared)):
            bits, run = millibits(shape), _run(standing, prepared, number)
            if bits and not await self._minter.charge(standing, run, bits):
                continue
            # A rule that looks at the text, or a higher label, is one more outcome; all of these look alike.
            whole = response.decision.verdict is Verdict.ALLOW and not result.failed and held.label.flows_to(entered)
            naming, drawing = _Naming(standing, held.ref), result.structured if whole else None
            shown = drawn(shape, drawing, self._judge.masks.scrubbed, naming.named)
            if shown is None and is_constant(shape):
                naming = _Naming(standing, held.ref)
                shown = empty(shape, naming.named)
            text = NONE_SHOWN if shown is None else json.dumps(shown, ensure_ascii=False)
            # That nothing is shown is one of the outcomes that third parties choose among, so it is heard as well.
            endorsed = (Endorsed(standing.sid, _brief(prepared.call.tool, text), run, bits),) if bits else ()
            if shown is None:
                return replace(plain, endorsed=endorsed)
            item = replace(held, parts=tuple(naming.parts), server=prepared.server)
            return replace(plain, text=f"{told}\n{SHOWN}\n{text}", held=item, endorsed=endorsed)
        return plain


def _run(standing: DecisionContext, prepared: CallDecision, number: int) -> str:
    """Return the id of the charge for one way to show a call's result: the same whenever the call is repeated."""
    named = f"spared/{key(standing, prepared.call)}/{number}"
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:_CHARGE]


def _brief(tool: str, text: str) -> str:
    """Return a skeleton as people read it in questions."""
    return f"{tool}: {text[:_BRIEF]}{'…' if len(text) > _BRIEF else ''}"


def shapes(document: Document, prepared: CallDecision) -> tuple[Shape, ...]:
    """Return how the result of a call may be shown, the most first: with its bounded values, and without."""
    tool = None if prepared.accepted is None else prepared.accepted[0]
    shape = tool.shape if isinstance(tool, ShowsParts) else None
    if shape is None:
        return ()
    full = in_force(shape, document)
    return tuple(dict.fromkeys((full, unbounded(full))))


@dataclass(slots=True)
class _Naming:
    """Names the parts of one held result: with handles in the order of the generation, and with references to it."""

    standing: DecisionContext
    ref: str
    parts: list[HeldPart] = field(default_factory=list[HeldPart])

    def named(self, piece: Piece) -> JsonValue:
        """Return the name of a part in the skeleton."""
        if not piece.kind:
            part = HeldPart(f"{self.ref}.{len(self.parts) + 1}", piece.text)
            self.parts.append(part)
            return {REFERENCE: part.ref}
        before = sum(one.handle == piece.kind for one in (*self.standing.held, *self.parts))
        handle = named(self.standing.sid, self.standing.generation, piece.kind, before + 1)
        self.parts.append(HeldPart(handle, piece.text, piece.kind))
        return handle
