"""`ask_user`: what the model reads of each end of a question, and what a call tells beforehand."""

import json
from dataclasses import replace

import pytest
from pydantic import JsonValue

from bot.access.decision_context import Call
from bot.delivery.asker_questions import NOWHERE
from bot.sessions.approvals import AnswerValue, Approval, ApprovalQuestion, ApprovalState, QuestionAnswer, QuestionKind
from bot.tools.arguments import checked
from bot.tools.asking import ASKED, CANCELLED, DECLINED, LATE, AskArguments, AskUser
from policy.labels import PUBLIC
from tests.bot.kit import INTERNAL, Services, gate, standing, tool_context

pytestmark = pytest.mark.anyio


def question(state: ApprovalState, default: AnswerValue | None = None, answer: AnswerValue | None = None) -> Approval:
    return Approval(
        id="q1",
        sid="s1",
        generation=1,
        turn="t1",
        call="c1",
        tool="ask_user",
        binding="",
        label=PUBLIC,
        principal="owner",
        question=ApprovalQuestion("ask_user", {"question": "which?"}, kind=QuestionKind.QUESTION),
        rules=(),
        expires_at=1,
        state=state,
        default=default,
        answer=None if answer is None else QuestionAnswer(answer, INTERNAL, "console::owner:"),
    )


def arguments(**given: JsonValue) -> AskArguments:
    made = checked(AskUser(), {"question": "which?", **given})
    assert isinstance(made, AskArguments)
    return made


@pytest.mark.parametrize(
    "asked, told",
    [
        (question(ApprovalState.REPLIED, answer=True), {"status": "answered", "answer": True}),
        (question(ApprovalState.EXPIRED), {"status": LATE}),
        (question(ApprovalState.EXPIRED, default=3), {"status": LATE, "default": 3}),
        (question(ApprovalState.DENIED, default=3), {"status": DECLINED}),
        (question(ApprovalState.CANCELLED), {"status": CANCELLED}),
        (question(ApprovalState.SUPERSEDED), {"status": CANCELLED}),
    ],
)
async def test_every_end_of_a_question_is_told(asked: Approval, told: dict[str, JsonValue]) -> None:
    context = replace(tool_context(), asked=asked)
    result = await AskUser().run(arguments(), context, Services())
    assert json.loads(result.text) == told
    assert result.label == (PUBLIC if asked.answer is None else INTERNAL)
    assert AskUser().declare(arguments(), context).result == result.label


async def test_what_was_not_asked_is_told() -> None:
    result = await AskUser().run(arguments(), replace(tool_context(), unasked=NOWHERE), Services())
    assert (result.text, result.failed) == (NOWHERE, True)
    result = await AskUser().run(arguments(end_turn=True), tool_context(), Services())
    assert (json.loads(result.text), result.failed) == ({"status": ASKED}, False)


@pytest.mark.parametrize(
    "given, default",
    [
        ({"default": "soon"}, "soon"),
        ({"schema": {"type": "text"}, "default": "soon"}, "soon"),
        ({"schema": {"type": "boolean"}, "default": False}, False),
        ({"schema": {"type": "number", "min": 0, "max": 2, "step": 0.5}, "default": 1.5}, 1.5),
        ({"schema": {"type": "date", "min": "2026-11-01"}, "default": "2026-11-22"}, "2026-11-22"),
        ({"schema": {"type": "enum", "values": ["red"]}, "default": "red"}, "red"),
    ],
)
async def test_a_default_of_each_kind_is_taken(given: dict[str, JsonValue], default: AnswerValue) -> None:
    inquiry = await AskUser().inquiry(arguments(**given), tool_context())
    assert (inquiry.default, type(inquiry.default)) == (default, type(default))


async def test_a_simulation_tells_on_what_it_depends() -> None:
    told = await gate([AskUser()]).calls.simulate(standing(), "ask_user", {"question": "which?"}, PUBLIC)
    assert told["verdict"] == "ALLOW"
    assert told["depends"] == ["where the user may be asked", "the label of the place where they answer"]


async def test_a_question_is_no_approval_of_the_call_that_asked_it() -> None:
    asked = replace(question(ApprovalState.REPLIED, answer="yes"), call="c1")
    decider = gate([AskUser()])
    prepared = decider.calls.prepare(standing(), Call("c1", "ask_user", {"question": "which?"}), (asked,))
    assert (prepared.asked, prepared.approved, prepared.use) == (asked, (), None)
    other = decider.calls.prepare(standing(), Call("c2", "ask_user", {"question": "which?"}), (asked,))
    assert other.asked is None
