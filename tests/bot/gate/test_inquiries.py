"""What a call wants to know of its asker: looked up once the call may be made, and never in place of a decision."""

from dataclasses import dataclass, field, replace

import pytest

from bot.core.errors import StoreGoneError
from bot.gate.calls import UNDECIDED
from bot.sessions.approvals import Approval, ApprovalQuestion, QuestionKind
from bot.tools.base import Inquiry, ToolContext
from policy.decision import Verdict
from policy.labels import PUBLIC
from tests.bot.kit import Probe, TextArguments, call, gate, rule, standing

pytestmark = pytest.mark.anyio

GONE = StoreGoneError("the store does not answer")


@dataclass
class Curious(Probe):
    """A tool that asks, or cannot."""

    name: str = "curious"
    failure: Exception | None = None
    looked: list[ToolContext] = field(default_factory=list[ToolContext])

    async def inquiry(self, arguments: TextArguments, context: ToolContext) -> Inquiry:
        self.looked.append(context)
        if self.failure is not None:
            raise self.failure
        return Inquiry(f"may I {arguments.text}?")


async def test_a_call_that_may_be_made_asks() -> None:
    tool = Curious()
    deciding = gate([tool])
    prepared = deciding.calls.prepare(standing(), call("curious", {"text": "go on"}))
    assert prepared.inquiry is None
    asking = await deciding.calls.inquire(standing(), prepared)
    assert asking.inquiry == Inquiry("may I go on?")
    assert [one.session.taint for one in tool.looked] == [PUBLIC]


async def test_nothing_is_looked_up_for_a_call_that_is_refused_or_was_answered() -> None:
    tool = Curious()
    for document in (
        rule(id="none", hook="PRE_TOOL_CALL", action="BLOCK"),
        rule(id="ask", hook="PRE_TOOL_CALL", action="REQUIRE_APPROVAL"),
    ):
        deciding = gate([tool], document)
        prepared = deciding.calls.prepare(standing(), call("curious", {"text": "go on"}))
        assert await deciding.calls.inquire(standing(), prepared) == prepared
    deciding = gate([tool])
    for prepared in (
        deciding.calls.prepare(standing(), call("nothing")),
        replace(deciding.calls.prepare(standing(), call("curious", {"text": "go on"})), asked=asked()),
    ):
        assert await deciding.calls.inquire(standing(), prepared) == prepared
    assert tool.looked == []


async def test_what_cannot_be_looked_up_is_refused_and_a_store_that_is_gone_is_told() -> None:
    tool = Curious(failure=KeyError("broken"))
    deciding = gate([tool])
    prepared = deciding.calls.prepare(standing(), call("curious", {"text": "go on"}))
    refused = await deciding.calls.inquire(standing(), prepared)
    assert (refused.decision.verdict, refused.inquiry) == (Verdict.BLOCK, None)
    assert [outcome.message for outcome in refused.decision.outcomes] == [UNDECIDED]
    tool.failure = GONE
    with pytest.raises(StoreGoneError):
        await deciding.calls.inquire(standing(), prepared)


def asked() -> Approval:
    """Return a question that was asked."""
    return Approval(
        id="q",
        sid="s1",
        generation=1,
        turn="t1",
        call="c1",
        tool="curious",
        binding="",
        label=PUBLIC,
        principal="owner",
        question=ApprovalQuestion("curious", {}, kind=QuestionKind.QUESTION),
        rules=(),
        expires_at=0,
    )
