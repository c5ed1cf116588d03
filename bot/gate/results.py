"""The results of crossing the gate: the decision, with its consequences."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.gate.origins import facts
from bot.sessions.alternatives import Alternative
from bot.sessions.approvals import Approval
from bot.sessions.audit import AuditRow
from bot.sessions.background.delegation import ResultField
from bot.sessions.background.runs import UNREAD
from bot.sessions.consents.grants import EndedGrant, GrantEnd, GrantScope, GrantUse
from bot.sessions.consents.released_calls import CallRelease
from bot.sessions.deliveries import NewDelivery
from bot.sessions.log.events import DeferredResult
from bot.sessions.messages import Endorsed
from bot.sessions.models import Summary
from bot.sessions.refs import Ref
from bot.tools.base import Arguments, Inquiry, Tool
from bot.tools.held.conditions import AnswerField
from bot.tools.held.entries import ListEntry
from policy import explain
from policy.decision import Decision, Verdict
from policy.document.reading import API
from policy.labels import PUBLIC, Label
from policy.request import ArgumentRole, Destination, Hook

MAY_GO_ON: Final = frozenset({Verdict.ALLOW, Verdict.REDACT})
"""The verdicts with which a crossing happens; redacted parts are replaced on the way."""

_WITHOUT_COMMANDS: Final = UNREAD | {API}
"""The channels of homes where nobody types commands."""

NOT_KNOWN: Final = "the person who asked this is not known here any more"


@dataclass(frozen=True, slots=True)
class CallDecision:
    """A call with its decision.

    A call with references has two decisions: `open` was made without the texts behind them, and is the only one that
    may be shown. `decision` is the whole one.

    Args:
        call: The call.
        decision: The decision.
        binding: The digest that an approval for it must be bound to.
        label: The least label of its result.
        use: The id of the approval that running it spends.
        accepted: The tool and the checked arguments, None when the call names nothing runnable.
        approved: The rules that the approval lifts.
        hook: The hook where it was decided.
        hold: Whether its result stays out of the context.
        floor: The part of the result's label that may be shown beforehand.
        carried: The label of all held items that it depends on.
        content: That label without the answer and without entries.
        known: The part of that label that may be shown.
        shown: Its arguments with those texts in place, for people who are asked; None where it is refused for any
            answer.
        missing: Whether a held list has no entry at a place that it takes, which people are shown as those texts are.
        steers: The held items that steer it, each with the role of its argument.
        opened: Its checked arguments without the texts behind its references, where it has some.
        open: The open decision, None where `decision` may be shown.
        overshot: Whether it is refused because its result could not be shown where it was asked for, which ends the
            turn.
        offer: The alternative that its asker is offered.
        leads: The meanings of the recipients that it names, when it was decided.
        begun: Whether an earlier attempt began it and left no result, so that its outcome is unknown.
        outward: Whether it is consequential, and nothing ensures that it takes effect only once.
        inquiry: Its question to the asker, None for a call that asks nothing or was not accepted.
        asked: Its question to the asker, once that is over.
        unasked: Why the question was not asked, empty if it was.
        question: The question before it is asked, with its deliveries.
        account_of: The principal whose account elsewhere it uses, empty for none.
        grant: The use of a grant that running it spends.
        scope: The scope of a grant that people may give when they are asked about it, None for none.
        ended: The grants that it shows to be over.
        raises: The label that it raises the session to once it is allowed.
        shows: Whether it shows a model the items that it refers to.
        returns: The fields that bound its result, none where that is held in any case.
        fields: The fields of its result, also where that is held in any case.
        condition: The field of a held answer that must be true, None for a call without a condition.
        entries: The entries of held lists that it takes.
        taken: The charges for the choice that third parties have by these.
        release: The sink that it waits to be released to, or was; None for a call that needs no release.
        released: The person who released it, empty for none.
        spared: Whether only the level and compartments of its result enter the context.
        by_handle: Whether it refers to identifiers by their handles, and to no text.
        server: The MCP server that gets its arguments, empty for none.
        own: Whether the session itself fixed all that steers it.
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
    content: Label = PUBLIC
    known: Label = PUBLIC
    shown: Mapping[str, JsonValue] | None = None
    missing: bool = False
    steers: tuple[tuple[ArgumentRole, DeferredResult], ...] = ()
    opened: tuple[Tool, Arguments] | None = None
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
    account_of: str = ""
    grant: GrantUse | None = None
    scope: GrantScope | None = None
    ended: tuple[EndedGrant, ...] = ()
    raises: Label = PUBLIC
    shows: bool = False
    returns: tuple[ResultField, ...] = ()
    fields: tuple[ResultField, ...] = ()
    condition: AnswerField | None = None
    entries: tuple[ListEntry, ...] = ()
    taken: tuple[Endorsed, ...] = ()
    release: CallRelease | None = None
    released: str = ""
    spared: bool = False
    by_handle: bool = False
    server: str = ""
    own: bool = False

    @property
    def leaving(self) -> Label:
        """The label of all that leaves with it beside the taint.

        An answer that decides whether it is made leaves its level and compartments, and so do entries. Integrity does
        not count: nothing of these was heard (ADR 0069), and bounds judge the identifiers (ADR 0070).
        """
        return self.content.join(self.carried.secrecy)

    @property
    def depended(self) -> tuple[Endorsed, ...]:
        """The held answers and entries that decide on it, as they were counted."""
        decides = () if self.condition is None else self.condition.endorsed
        places = (one for entry in self.entries for one in entry.endorsed)
        return tuple(dict.fromkeys((*decides, *places, *self.taken)))

    @property
    def audited(self) -> dict[str, JsonValue]:
        """The facts of the call in every audit row of a decision on it, beside the name of its tool."""
        used: dict[str, JsonValue] = {"account_of": self.account_of} if self.account_of else {}
        used |= {"grant": self.grant.grant} if self.grant else {}
        if self.release is not None and self.released:
            used |= {"released": self.released, "sink": self.release.sink, "clearance": str(self.release.clearance)}
        return {"call": self.call.id, "arguments": self.call.digest, **used}

    @property
    def keeps(self) -> bool:
        """Whether the text of its result stays out of the context."""
        return self.hold or self.spared

    @property
    def waits(self) -> bool:
        """Whether it waits for the asker's answer, or ends the turn with its question."""
        ends = self.inquiry is not None and self.inquiry.ends_turn and not self.unasked
        return self.question is not None or (ends and self.decision.verdict in MAY_GO_ON)

    @property
    def told(self) -> Decision:
        """The decision that the context and its readers may know."""
        return self.decision if self.open is None else self.open

    @property
    def concealed(self) -> bool:
        """Whether the decision differs from the open one, so that the difference reveals the referenced texts."""
        return self.decision.verdict is not self.told.verdict or self.decision.rules != self.told.rules

    @property
    def veiled(self) -> bool:
        """Whether the items that it would show a model refuse it: it is then charged and answered as if it ran."""
        return self.shows and self.decision.verdict not in MAY_GO_ON and self.told.verdict in MAY_GO_ON

    @property
    def beside(self) -> Label:
        """The label that showing the decision adds to the taint."""
        return self.carried if self.concealed else PUBLIC

    @property
    def repeatable(self) -> bool:
        """Whether it may simply run again if its outcome is unknown; a released call never does."""
        return self.release is None and self.accepted is not None and self.accepted[0].repeatable and not self.outward

    @property
    def in_doubt(self) -> bool:
        """Whether its outcome is unknown, and it may not simply run again."""
        return self.begun and not self.repeatable

    @property
    def asks_again(self) -> bool:
        """Whether people are asked to make it again, or were.

        Not for a held call: whether it began or ended is shown only to readers who may know of it. Nor for a call that
        needs a release, which takes effect once at most.
        """
        return self.in_doubt and self.outward and not self.hold and self.release is None


@dataclass(frozen=True, slots=True)
class PlacedQuestion:
    """An agent's question with its deliveries, and the audit rows of the decisions on them."""

    question: Approval
    deliver: tuple[NewDelivery, ...]
    audit: tuple[AuditRow, ...]


@dataclass(frozen=True, slots=True)
class ResultDecision:
    """A result on its way into the context.

    Args:
        hook: The hook of `decision`: on the result itself or on a text it wanted sent.
        decision: The decision.
        text: The text to admit; for a held result, the notice.
        label: The label to admit; for a held result, that of the notice.
        failed: Whether the call failed.
        deliver: The texts to deliver.
        audit: The audit rows.
        held: The item that is held instead of being admitted.
        summary: A recap to keep in the log.
        refs: The sources of the result, as high as its true label.
        acknowledge: The ids of the steering notes in the text, none for a held or refused result.
        endorsed: The bounded answer or the skeleton that the text is, where it was counted.
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
    endorsed: tuple[Endorsed, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputDecision:
    """A text on its way out: `text` is the text that may be sent, redacted where a rule asks for it."""

    decision: Decision
    text: str
    destination: Destination


def explained(decision: Decision, reader: Label, subject: str, told: explain.LabelWording = explain.SESSION) -> str:
    """Return a decision about `subject` in words for a reader with this clearance, with its labels as `told`."""
    return "\n".join(explain.render(decision, reader, subject=subject, told=told))


def denial(standing: DecisionContext, decision: Decision, reader: Label, subject: str) -> str:
    """Return a refusal in words for a reader with this clearance, brief where `/why` tells the rest.

    `/why` knows the refusals of turns, and is typed by people in chats: not by programs, and not in background sessions
    and runs. Those get the whole explanation.
    """
    rest = explain.REST_SHARED if standing.destination.shared else explain.REST
    if not standing.turn or standing.home.channel in _WITHOUT_COMMANDS:
        rest = ""
    return "\n".join(explain.render(decision, reader, subject=subject, rest=rest))


def decision_row(standing: DecisionContext, hook: Hook, decision: Decision, **more: JsonValue) -> AuditRow:
    """Return the audit row of a decision; its actor is the asker."""
    return AuditRow("decision", standing.asker, decision_facts(hook, decision, **more))


def ended_rows(standing: DecisionContext, *calls: CallDecision) -> tuple[AuditRow, ...]:
    """Return the audit rows of the grants that calls show to be over, or whose last use they spend; each once."""
    over = {one.grant: one.end for call in calls for one in call.ended}
    for call in calls:
        used = next((one for one in standing.grants if call.grant is not None and one.id == call.grant.grant), None)
        if used is not None and used.grant is not None and call.grant is not None:
            after = used.grant.used_by(call.grant.call)
            over |= {used.id: GrantEnd.USED_UP} if after != used.grant and after.left == 0 else {}
    return tuple(
        AuditRow("grant", standing.asker, {"what": "ended", "grant": name, "why": end.value})
        for name, end in over.items()
    )


def decision_facts(hook: Hook, decision: Decision, **more: JsonValue) -> dict[str, JsonValue]:
    """Return a decision for an audit row: names and labels, never content."""
    return {
        "hook": hook.value,
        "verdict": decision.verdict.name,
        "rules": list(decision.rules),
        "before": str(decision.label_before),
        "after": str(decision.label_after),
        "policy": decision.policy,
        **({"would": logged(decision)} if decision.would else {}),
        **more,
        "facts": facts(decision),
    }


def logged(decision: Decision) -> dict[str, JsonValue]:
    """Return the results of rules that are `log_only` for records of the operator, by rule."""
    return {one.rule: one.word for one in decision.would}


def traced(decision: Decision) -> dict[str, str]:
    """Return a decision as facts of a span."""
    told = {"verdict": decision.verdict.name, "rules": " ".join(decision.rules)}
    return told | ({"would": " ".join(f"{one.rule}:{one.word}" for one in decision.would)} if decision.would else {})
