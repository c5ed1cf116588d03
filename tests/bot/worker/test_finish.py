"""How a turn ends: what is said, to whom, and what is written of it."""

import json
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse, TextPart

from bot.access import approvals
from bot.access.decision_context import Call
from bot.agent.call_runs import call_runs
from bot.agent.loop import Answer
from bot.app import workers
from bot.core.clock import SystemClock
from bot.sessions.approvals import Approval, ApprovalQuestion, ApprovalState
from bot.sessions.deliveries import DeliveryState
from bot.sessions.log.event_types import YieldReason
from bot.sessions.log.events import EventType, Visibility
from bot.sessions.log.serialization import event_json
from bot.sessions.models import Status
from bot.worker.lease import LeaseKeeper
from channels.messages import OutboundKind
from policy.labels import PUBLIC
from tests.bot.kit import HOME, Scripted, bang, by_hand, parts, policy
from tests.harness import running
from tests.people import principal

pytestmark = pytest.mark.anyio

CARD = "4111 1111 1111 1111"
NARROW = {"owner": {"channel": "console", "chat": "owner", "clearance": "INTERNAL"}}


async def test_an_answer_is_one_commit_of_event_usage_delivery_and_audit(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        state = await owner.state()
        assert state.last_turn is not None
        assert state.turn is None
        assert (state.status, state.last_turn.reason) == (Status.IDLE, YieldReason.COMPLETED)
        assert [event.type for event in await owner.events()] == [
            EventType.SESSION_CREATED,
            EventType.TURN_STARTED,
            EventType.USER_MESSAGE,
            EventType.AGENT_MESSAGE,
            EventType.TURN_COMPLETED,
        ]
        hooks = [row.body["hook"] for row in await owner.app.store.audit.records(owner.sid)]
        assert hooks == ["PRE_CONTEXT_INJECTION", "AGENT_INVOCATION", "PRE_OUTPUT"]
        (said,) = await owner.app.store.outbox.deliveries(owner.sid)
        assert (said.state, said.kind, said.label) == (DeliveryState.SENT, OutboundKind.ANSWER, PUBLIC)


async def test_no_write_down_an_answer_above_its_place_is_not_said(tmp_path: Path) -> None:
    async with running(tmp_path, policy(recipients=NARROW)) as owner:
        shown = await owner.say(bang("read_file", path="confidential/pipeline.md"))
        assert "Veldhaven" not in shown
        assert "no_write_down" in shown
        assert "CONFIDENTIAL" not in shown  # the place may not know the label either
        (withheld,) = [event for event in await owner.events() if event.type is EventType.AGENT_MESSAGE]
        assert withheld.visibility is Visibility.INTERNAL


async def test_a_notice_bears_the_label_of_what_it_shows(tmp_path: Path) -> None:
    rules = [{"id": "no-cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "BLOCK"}]
    model = Scripted(f"pay {CARD}")
    config = policy(rules=rules, channels={"console": {"classification": "top", "inbound": "CONFIDENTIAL"}})
    async with running(tmp_path, config, parts=parts(model=model)) as owner:
        shown = await owner.say("hello")
        assert "This session has read: CONFIDENTIAL" in shown
        assert CARD not in shown
        (said,) = await owner.app.store.outbox.deliveries(owner.sid)
        assert (str(said.label), said.kind) == ("CONFIDENTIAL", OutboundKind.NOTICE)


async def test_redaction_of_an_answer_is_real_in_chat_log_and_context(tmp_path: Path) -> None:
    rules = [{"id": "no-cards", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "REDACT"}]
    model = Scripted(f"pay {CARD} now")
    async with running(tmp_path, policy(rules=rules), parts=parts(model=model)) as owner:
        assert "pay [redacted: payment-card] now" in await owner.say("how?")
        assert CARD not in json.dumps([event_json(event.body) for event in await owner.events()])
        await owner.say("again")
        assert CARD not in model.read()


async def test_an_answer_a_rule_blocks_is_explained_not_said(tmp_path: Path) -> None:
    rules = [{"id": "quiet", "hook": "PRE_OUTPUT", "pattern": "payment-card", "action": "BLOCK", "message": "no cards"}]
    async with running(tmp_path, policy(rules=rules)) as owner:
        shown = await owner.say(CARD)
        assert CARD not in shown
        assert "no cards" in shown
        assert "no cards" in await owner.say("/why")


async def test_where_nothing_may_be_said_nothing_is(tmp_path: Path) -> None:
    rules = [{"id": "silence", "hook": "PRE_OUTPUT", "action": "BLOCK"}]
    async with running(tmp_path, policy(rules=rules)) as owner:
        assert await owner.say("hello") == ""
        assert (await owner.state()).status is Status.IDLE
        assert await owner.app.store.outbox.deliveries(owner.sid) == ()


async def test_a_rule_may_keep_the_model_from_being_asked(tmp_path: Path) -> None:
    rules = [{"id": "not-now", "hook": "AGENT_INVOCATION", "action": "BLOCK", "message": "not now"}]
    model = Scripted("leak")
    async with running(tmp_path, policy(rules=rules), parts=parts(model=model)) as owner:
        assert "not now" in await owner.say("hello")
        assert not model.asked
        kinds = [event.type for event in await owner.events()]
        assert kinds.count(EventType.POLICY_DECISION) == 1


async def test_an_approval_that_ran_out_before_it_was_spent_is_an_error_not_a_dead_worker(tmp_path: Path) -> None:
    people = {
        "owner": principal("console:owner"),
        "boss": principal("console:boss", role="approver"),
    }
    rules = [{"id": "boss-reads", "hook": "PRE_OUTPUT", "action": "REQUIRE_APPROVAL"}]
    async with by_hand(tmp_path, policy(principals=people, rules=rules)) as (owner, turn):
        text, name = "the answer", f"{turn.record.id}-answer"
        call = Call(name, "answer", {"text": text, "address": str(HOME)})
        bound = approvals.binding(turn.standing, call)
        # the turn read it as approved; for the store it is no longer there to be spent
        gone = Approval(
            id="a1",
            sid=owner.sid,
            generation=1,
            turn=turn.record.id,
            call=name,
            tool="answer",
            binding=bound,
            label=PUBLIC,
            principal="owner",
            question=ApprovalQuestion("answer", {}),
            rules=("boss-reads",),
            expires_at=turn.standing.now + 60_000,
            state=ApprovalState.APPROVED,
            resolved_by="boss",
        )
        turn.approvals = (gone,)
        keeper = LeaseKeeper(owner.app._open_own_store, 30, SystemClock())  # pyright: ignore[reportPrivateUsage] - as the app does
        answer = Answer(text, ModelResponse(parts=[TextPart(text)]), logged=False)
        async with call_runs(0) as runs:
            thinking = await owner.app.model_loader.thinking()
            worker = workers.worker(owner.app.worker_parts(), keeper, thinking, runs)
            deliveries = await worker._runner._end(turn, answer)  # pyright: ignore[reportPrivateUsage] - what is tested
        assert [said.kind for said in deliveries] == [OutboundKind.NOTICE]
        assert "Something went wrong here" in deliveries[0].text
        state = await owner.state()
        assert state.last_turn is not None
        assert (state.status, state.last_turn.reason) == (Status.IDLE, YieldReason.ERROR)
        assert EventType.AGENT_MESSAGE not in [event.type for event in await owner.events()]
