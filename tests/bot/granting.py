"""Grants as tests give them: a tool with every role, and the approval of a call for further calls of its scope."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import JsonValue

from bot.access.decision_context import Call, DecisionContext
from bot.gate.gate import Gate
from bot.sessions.approvals import FOR_EVER, Approval, ApprovalQuestion, ApprovalState
from bot.sessions.consents.grants import Grant
from bot.tools.base import (
    Arguments,
    CallFacts,
    Content,
    PathText,
    Recipient,
    Result,
    RoleMark,
    ToolContext,
    ToolServices,
)
from policy.labels import PUBLIC
from policy.request import ArgumentRole, Effect
from tests.bot.kit import DIRTY, NOW, standing

ASKED: Mapping[str, JsonValue] = {
    "to": "ann",
    "amount": 100,
    "file": "bills/may.pdf",
    "plain": "eur",
    "text": "for lunch",
}


class PayArguments(Arguments):
    """An argument of each kind."""

    to: Recipient = ""
    amount: Annotated[int | float | None, RoleMark(ArgumentRole.AMOUNT)] = None
    file: PathText = ""
    plain: str | None = None
    text: Content | None = None
    lines: Annotated[tuple[dict[str, JsonValue], ...], RoleMark(ArgumentRole.AMOUNT)] = ()


FACTS = CallFacts(consequential=True, clearance=DIRTY)


@dataclass
class Pay:
    """A consequential tool; `declared` and `description` are what a test changes."""

    declared: CallFacts = FACTS
    description: str = "Pay a person."
    server: str = ""
    name: str = "pay"
    effect: Effect = Effect.WRITE
    label = PUBLIC
    repeatable: bool = True
    arguments: type[Arguments] = PayArguments

    def declare(self, arguments: PayArguments, context: ToolContext) -> CallFacts:
        """Declare what the test said."""
        return self.declared

    async def run(self, arguments: PayArguments, context: ToolContext, services: ToolServices) -> Result:
        """Pay nobody."""
        return Result("paid")


def pay(name: str = "c2", **changes: JsonValue) -> Call:
    """Return the shown call with some arguments changed; one that is None is left out."""
    return Call(name, "pay", {key: value for key, value in {**ASKED, **changes}.items() if value is not None})


def granted(
    keeper: Gate,
    shown: Call | None = None,
    *,
    here: DecisionContext | None = None,
    grant: Grant | None = None,
    by: str = "owner",
    name: str = "g1",
) -> Approval:
    """Return the approval of a call for further calls, as its question offered it; nine of them at any time."""
    here = standing(DIRTY) if here is None else here
    asked = pay("c1") if shown is None else shown
    prepared = keeper.calls.prepare(here, asked)
    assert prepared.scope is not None, prepared.decision
    return Approval(
        id=name,
        sid=here.sid,
        generation=here.generation,
        turn=here.turn,
        call=asked.id,
        tool=asked.tool,
        binding=prepared.binding,
        label=here.taint,
        principal=here.asker,
        question=ApprovalQuestion(asked.tool, asked.arguments or {}, rules=prepared.scope.rules, scope=prepared.scope),
        rules=prepared.scope.rules,
        expires_at=NOW + 1,
        state=ApprovalState.USED,
        resolved_by=by,
        grant=Grant(FOR_EVER, 9) if grant is None else grant,
    )


def having(*grants: Approval, here: DecisionContext | None = None) -> DecisionContext:
    """Return where a session with these grants stands."""
    return replace(standing(DIRTY) if here is None else here, grants=grants)
