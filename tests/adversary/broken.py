"""Parts of the gate with one mend taken out, for worlds in which the adversary must find that."""

from dataclasses import replace
from typing import ClassVar

from bot.access.decision_context import Call, DecisionContext
from bot.gate.calls import CallGate
from bot.gate.results import CallDecision
from bot.sessions.approvals import Approval
from bot.tools.held.conditions import UNMET
from bot.tools.held.entries import NOT_THERE


class BoundlessCalls(CallGate):
    """Decides on calls as if the session had heard no endorsed value."""

    def prepare(
        self, standing: DecisionContext, call: Call, approvals: tuple[Approval, ...] = (), *, begun: bool = False
    ) -> CallDecision:
        """Decide on a call without its bounds."""
        return super().prepare(replace(standing, endorsed=()), call, approvals, begun=begun)


class UnraisedCalls(CallGate):
    """Raises no session by a call that ends behind its veil, though the call declared the raise."""

    def prepare(
        self, standing: DecisionContext, call: Call, approvals: tuple[Approval, ...] = (), *, begun: bool = False
    ) -> CallDecision:
        """Decide on a call, with the raise only where it runs."""
        made = super().prepare(standing, call, approvals, begun=begun)
        if made.open is None or not made.veiled:
            return made
        return replace(made, open=replace(made.open, label_after=made.open.label_before))


class _ToldRefusals(CallGate):
    """Refuses a call openly that is not made for one reason, which only held items may tell."""

    reason: ClassVar[str]

    def prepare(
        self, standing: DecisionContext, call: Call, approvals: tuple[Approval, ...] = (), *, begun: bool = False
    ) -> CallDecision:
        """Decide on a call, with the refusal for that reason in the conversation."""
        made = super().prepare(standing, call, approvals, begun=begun)
        refused = any(outcome.message == self.reason for outcome in made.decision.outcomes)
        return replace(made, open=None, hold=False) if refused else made


class ToldConditions(_ToldRefusals):
    """Refuses a call openly whose condition is not met."""

    reason = UNMET


class ToldEntries(_ToldRefusals):
    """Refuses a call openly that takes an entry which is not there."""

    reason = NOT_THERE
