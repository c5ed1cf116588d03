"""What a crossing of the gate gives: the decision, with what follows from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.sessions.alternatives import Alternative
from bot.sessions.approvals import Approval
from bot.sessions.audit import AuditRow
from bot.sessions.deliveries import NewDelivery
from bot.sessions.log.events import DeferredResult
from bot.sessions.models import Summary
from bot.sessions.refs import Ref
from bot.tools.base import Arguments, Inquiry, Tool
from policy import explain
from policy.decision import Decision, Verdict
from policy.labels import PUBLIC, Label
from policy.request import Destination, Hook

MAY_GO_ON: Final = frozenset({Verdict.ALLOW, Verdict.REDACT})
"""The verdicts with which a crossing happens; what is to be redacted is replaced on the way."""

NOT_KNOWN: Final = "this was asked by somebody who is not known here any more"


@dataclass(frozen=True, slots=True)
class CallDecision:
    """A call with its decision.

    `label` is what its result will carry at least. `use` is the approval that its running spends, `approved`
    names the rules that it lifts. `binding` is what an approval for it must be bound to, `leads` what the recipients
    that it names meant when it was decided. `accepted` holds tool and
    checked arguments, None when the call names nothing that could run. `hook` is where it was decided.

    `hold` tells that its result stays out of the context. `floor` is what may be told of the result's label
    beforehand. `carried` is the label of what it refers to, `known` what may be told of that label, and `shown` its
    arguments with that in place, for people who are asked: None where it is refused whatever they answer. A call that
    refers to something has two decisions: `open` was made without looking at what is referred to, and is all that may
    be told; it is None where `decision` may be. `overshot` tells that it is refused because it could not be told where
    it was asked for, which ends the turn, and `offer` is what its asker may have in its place.

    `begun` tells that an attempt before began it and left no result, so nobody knows its outcome. `outward` tells that
    it is consequential, and that nothing sees to it that it takes effect only once.

    `inquiry` is what it wants to know of the asker, None for a call that asks nothing or was not accepted. `asked` is
    the question that it put to the asker, once that is over, and `unasked` is why nobody was asked.
    `question` is that question before it is asked, with where it is to be said.
    """

    call: Call
    decision: Decision
    binding: str
    label: Label = PUBLIC
    use: str | None = None
    accepted: tuple[Tool, Arguments] | None = None
    approved: tuple[str, ...] = ()
    hook: Hook = Hook.PRE_TOOL_CALL
    hold: bool = False
    floor: Label = PUBLIC
    carried: Label = PUBLIC
    known: Label = PUBLIC
    shown: Mapping[str, JsonValue] | None = None
    open: Decision | None = None
    overshot: bool = False
    offer: Alternative | None = None
    leads: tuple[str, ...] = ()
    begun: bool = False
    outward: bool = False
    inquiry: Inquiry | None = None
    asked: Approval | None = None
    unasked: str = ""
    question: "PlacedQuestion | None" = None

    @property
    def waits(self) -> bool:
        """Whether it waits for the asker's answer, or ends the turn with its question."""
        ends = self.inquiry is not None and self.inquiry.ends_turn and not self.unasked
        return self.question is not None or (ends and self.decision.verdict in MAY_GO_ON)

    @property
    def told(self) -> Decision:
        """What the context and its readers may know of the decision."""
        return self.decision if self.open is None else self.open

    @property
    def concealed(self) -> bool:
        """Whether what the decision says beyond the open one tells of what is referred to."""
        return self.decision.verdict is not self.told.verdict or self.decision.rules != self.told.rules

    @property
    def beside(self) -> Label:
        """The label of what the decision tells beside the taint."""
        return self.carried if self.concealed else PUBLIC

    @property
    def repeatable(self) -> bool:
        """Whether it may simply run again where nobody knows its outcome."""
        return self.accepted is not None and self.accepted[0].repeatable and not self.outward

    @property
    def in_doubt(self) -> bool:
        """Whether nobody knows its outcome, and it may not simply run again."""
        return self.begun and not self.repeatable

    @property
    def asks_again(self) -> bool:
        """Whether people are asked to make it again, or were.

        Not about what is held: that it was begun, and whether it ended, is told to nobody who may not know of it.
        """
        return self.in_doubt and self.outward and not self.hold


@dataclass(frozen=True, slots=True)
class PlacedQuestion:
    """An agent's question with what is to be delivered of it, and the rows of the decisions on that."""

    question: Approval
    deliver: tuple[NewDelivery, ...]
    audit: tuple[AuditRow, ...]


@dataclass(frozen=True, slots=True)
class ResultDecision:
    """A result on its way into the context: the text and label to admit, what to deliver, the audit rows.

    `hook` is where `decision` was made: on the result itself or on something it wanted said. `held` is what
    is kept instead of admitted; text and label are then those of the notice. `summary` is a recap
    to keep in the log. `refs` are what the result came from, as high as its true label. `acknowledge` are the steering
    notes that the text tells of: none of what is held or refused.
    """

    hook: Hook
    decision: Decision
    text: str
    label: Label
    failed: bool
    deliver: tuple[NewDelivery, ...]
    audit: tuple[AuditRow, ...]
    held: DeferredResult | None = None
    summary: Summary | None = None
    refs: tuple[Ref, ...] = ()
    acknowledge: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputDecision:
    """A text on its way out: `text` is what may be said, redacted where a rule asks for it."""

    decision: Decision
    text: str
    destination: Destination


def explained(decision: Decision, reader: Label, subject: str, told: explain.LabelWording = explain.SESSION) -> str:
    """Return a decision about `subject` in words for a reader with this clearance, with its labels as `told`."""
    return "\n".join(explain.render(decision, reader, subject=subject, told=told))


def decision_row(standing: DecisionContext, hook: Hook, decision: Decision, **more: JsonValue) -> AuditRow:
    """Return the audit row of a decision; its actor is who set it going."""
    return AuditRow("decision", standing.asker, decision_facts(hook, decision, **more))


def decision_facts(hook: Hook, decision: Decision, **more: JsonValue) -> dict[str, JsonValue]:
    """Return a decision for an audit row: names and labels, never content."""
    return {
        "hook": hook.value,
        "verdict": decision.verdict.name,
        "rules": list(decision.rules),
        "before": str(decision.label_before),
        "after": str(decision.label_after),
        "policy": decision.policy,
        **more,
    }
