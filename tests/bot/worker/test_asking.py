"""`ask_user`: a question in the middle of a turn, from the call to what the model reads of the answer."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue
from pydantic_ai.messages import ModelResponsePart

from bot.agent.calls import ENDS_ALONE, TOO_MANY_QUESTIONS
from bot.app.workers import PARALLEL
from bot.ingress.question_replies import HOW, HOW_OF_SEVERAL
from bot.ingress.router import Routed
from bot.sessions.approvals import Approval, ApprovalState
from bot.sessions.inbox import QueueMode
from bot.sessions.log.event_types import ToolOutcome, ToolResult, UserMessage, YieldReason
from bot.sessions.log.events import EventType
from bot.sessions.models import Status
from bot.store.records.kinds import APPROVAL
from bot.tools.asking import ASKED, DECLINED, LATE
from channels.messages import Address, How, Inbound, MessagePart
from tests.bot.kit import Scripted, bang, eventually, parts, policy, proposed, unanswered
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal
from tests.store.world import alter, keys

pytestmark = pytest.mark.anyio

COLOUR: Final[dict[str, JsonValue]] = {
    "question": "Which colour?",
    "schema": {"type": "enum", "values": ["red", "blue"]},
}


def asks(**arguments: JsonValue) -> list[ModelResponsePart]:
    return [proposed("ask_user", arguments or COLOUR)]


@asynccontextmanager
async def asked(
    folder: Path, *arguments: Mapping[str, JsonValue], config: str = "", text: str = "paint it"
) -> AsyncGenerator[tuple[Person, Scripted]]:
    """Run an application whose model asks these questions in one step, and wait until they are asked."""
    model = Scripted([proposed("ask_user", one, f"x{n}") for n, one in enumerate(arguments or (COLOUR,))], "done")
    async with running(folder, config, parts=parts(model=model)) as person:
        await person.say(text)
        yield person, model


async def open_questions(person: Person) -> tuple[Approval, ...]:
    return tuple(one for one in await person.app.store.approvals.of(person.sid) if one.state is ApprovalState.PENDING)


async def heard(person: Person) -> list[dict[str, JsonValue]]:
    """Return what the model was told of its questions, in order."""
    return [json.loads(one.text) for one in bodies(await person.events(), ToolResult) if one.outcome is ToolOutcome.OK]


async def test_a_question_waits_in_the_store_and_a_plain_reply_that_fits_answers_it(tmp_path: Path) -> None:
    async with asked(tmp_path) as (person, model):
        state = await person.state()
        assert (state.status, state.asks, len(model.asked)) == (Status.AWAITING_INPUT, True, 1)
        (question,) = await open_questions(person)
        assert f"The agent asks `owner`, question {question.id}:\n  > Which colour?" in person.shown.replace(
            "\n>", "\n  >"
        )
        assert "/answer" in person.shown
        assert (await person.send("Blue")).outcome is Routed.ANSWERED
        await person.settled()
        assert await heard(person) == [{"status": "answered", "answer": "blue"}]
        assert not unanswered(await person.events())
        assert len(bodies(await person.events(), UserMessage)) == 1
        (event,) = [one for one in await person.events() if one.type is EventType.TOOL_RESULT]
        assert (str(event.label), event.admitted) == ("PUBLIC", True)


@pytest.mark.parametrize("how", ["command", "button"])
async def test_a_command_or_a_button_answers_it(tmp_path: Path, how: str) -> None:
    async with asked(tmp_path) as (person, _):
        (question,) = await open_questions(person)
        await person.send(f"/answer {question.id.upper()} blue", how=How.BUTTON if how == "button" else How.TEXT)
        await person.settled()
        assert await heard(person) == [{"status": "answered", "answer": "blue"}]
        assert f"Answered {question.id}." in person.shown
        assert "It was answered already." in await person.say(f"/answer {question.id} red")
        assert await heard(person) == [{"status": "answered", "answer": "blue"}]


async def test_what_does_not_fit_queues_and_the_chat_is_told_once_how_to_answer(tmp_path: Path) -> None:
    async with asked(tmp_path) as (person, _):
        (question,) = await open_questions(person)
        assert (await person.send("what do you mean?")).outcome is Routed.ACCEPTED
        assert (await person.send("green")).outcome is Routed.ACCEPTED
        assert person.shown.count(HOW.format(id=question.id)) == 1
        assert (await person.state()).waiting_items == 2
        assert "This takes one of: red, blue" in await person.say(f"/answer {question.id} green", wait=False)
        await person.say(f"/answer {question.id} red")
        assert await heard(person) == [{"status": "answered", "answer": "red"}]
        assert [one.text for one in bodies(await person.events(), UserMessage)][1:] == ["what do you mean?", "green"]


async def test_what_was_forwarded_or_came_with_a_quote_or_in_parts_is_no_answer(tmp_path: Path) -> None:
    async with asked(tmp_path) as (person, _):
        parts = ({"part": MessagePart(more=True)}, {"part": MessagePart(continues=True)})
        for facts in ({"authored": False}, {"quoted": ("somebody else",)}, *parts):
            assert (await person.send("blue", **facts)).outcome is Routed.ACCEPTED
        assert len(await open_questions(person)) == 1


async def test_what_fits_two_questions_answers_none(tmp_path: Path) -> None:
    other: dict[str, JsonValue] = {"question": "And the door?", "schema": {"type": "enum", "values": ["blue", "no"]}}
    async with asked(tmp_path, COLOUR, other) as (person, model):
        first, second = await open_questions(person)
        await person.send("blue")
        assert HOW_OF_SEVERAL in person.shown
        assert len(await open_questions(person)) == 2
        await person.say("red", wait=False)
        assert len(model.asked) == 1, "the turn waits for both"
        left = await open_questions(person)
        assert len(left) == 1
        await person.say(f"/answer {left[0].id} no")
        assert sorted(str(one["answer"]) for one in await heard(person)) == ["no", "red"]
        assert {first.id, second.id} > {left[0].id}


async def test_an_answer_that_comes_again_after_a_lost_acknowledgement_counts_once(tmp_path: Path) -> None:
    async with asked(tmp_path) as (person, _):
        again = Inbound(person.address, person.account, "blue", "the-same")
        outcomes = [(await person.app.router.receive(again)).outcome for _ in range(3)]
        assert outcomes == [Routed.ANSWERED] * 3
        await person.settled()
        assert await heard(person) == [{"status": "answered", "answer": "blue"}]
        assert len(bodies(await person.events(), UserMessage)) == 1


async def test_a_message_that_is_told_again_answers_no_question_that_came_up_meanwhile(tmp_path: Path) -> None:
    """Its platform did not see it taken in: it was a message, and stays one (law `accepted_once_in_order`)."""
    async with running(tmp_path, parts=parts(model=Scripted(asks(question="Which colour?"), "done"))) as person:
        first = Inbound(person.address, person.account, "paint it", "the-same")
        await person.app.router.receive(first)
        await person.settled()
        assert len(await open_questions(person)) == 1
        assert (await person.app.router.receive(first)).outcome is Routed.ACCEPTED
        assert len(await open_questions(person)) == 1
        assert (await person.state()).waiting_items == 0
        assert (await person.send("blue")).outcome is Routed.ANSWERED


async def test_a_full_inbox_keeps_nobody_from_an_answer(tmp_path: Path) -> None:
    async with asked(tmp_path, config=json.dumps({"limits": {"inbox_items": 1}})) as (person, _):
        await person.send("what do you mean?")
        await person.send("hello?")
        assert "busy" in person.shown
        assert (await person.send("blue")).outcome is Routed.ANSWERED


async def test_of_two_answers_at_once_exactly_one_counts(tmp_path: Path) -> None:
    async with asked(tmp_path) as (person, _):
        (question,) = await open_questions(person)
        await asyncio.gather(*(person.send(f"/answer {question.id} {one}") for one in ("red", "blue")))
        await person.settled()
        assert len(await heard(person)) == 1
        assert person.shown.count("It was answered already.") == 1
        assert person.shown.count(f"Answered {question.id}.") == 1


@pytest.mark.parametrize("default", [None, "red"])
async def test_after_its_time_the_default_counts_or_nothing(tmp_path: Path, default: str | None) -> None:
    more = {} if default is None else {"default": default}
    async with asked(tmp_path, {**COLOUR, **more}) as (person, _):
        (question,) = await open_questions(person)
        before = question.expires_at - person.app.config.limits.question_minutes * 60_000
        await alter(person.app.store, APPROVAL, keys(person.sid).approvals, question.id, expires=before)
        await eventually(partial(idle, person))
        told = {"status": LATE} if default is None else {"status": LATE, "default": default}
        assert await heard(person) == [told]
        assert "Its time is over." in await person.say(f"/answer {question.id} blue")


async def test_a_question_stands_as_long_as_its_call_says_and_a_day_at_most(tmp_path: Path) -> None:
    async with asked(tmp_path, {**COLOUR, "timeout_minutes": 5}, COLOUR, {**COLOUR, "timeout_minutes": 10_080}) as (
        person,
        _,
    ):
        began = person.app.clock.wall_ms()
        stand = sorted(round((one.expires_at - began) / 60_000) for one in await open_questions(person))
        assert stand == [5, 1440, 1440]


async def test_stop_cancels_it_and_a_refusal_tells_the_agent(tmp_path: Path) -> None:
    async with asked(tmp_path) as (person, model):
        (question,) = await open_questions(person)
        await person.say("/stop")
        last = (await person.state()).last_turn
        assert last is not None
        assert last.reason is YieldReason.CANCELED
        assert not unanswered(await person.events())
        assert "It was cancelled." in await person.say(f"/answer {question.id} blue")
        model.then(asks(), "fine")
        await person.say("again")
        await person.say("and again")
        (question,) = await open_questions(person)
        await person.say(f"/deny {question.id}")
        assert (await heard(person))[-1] == {"status": DECLINED}


async def test_interrupt_supersedes_it(tmp_path: Path) -> None:
    async with asked(tmp_path) as (person, _):
        (question,) = await open_questions(person)
        await person.app.store.queue.set_mode(person.sid, QueueMode.INTERRUPT, ())
        await person.say("something else entirely")
        (was,) = [one for one in await person.app.store.approvals.of(person.sid) if one.id == question.id]
        assert was.state is ApprovalState.SUPERSEDED
        assert "A later message took its place." in await person.say(f"/answer {question.id} blue")
        assert "something else entirely" in [one.text for one in bodies(await person.events(), UserMessage)]


async def test_no_answer_approves_and_no_approval_answers(tmp_path: Path) -> None:
    async with asked(tmp_path) as (person, _):
        (question,) = await open_questions(person)
        assert "This is a question of the agent" in await person.say(f"/approve {question.id}", wait=False)
        listed = await person.say("/approvals", wait=False)
        assert f"{question.id} asked here, just now, 24 h left" in listed
        assert "/approve" not in listed
        assert f"{question.id} asked here" in await person.say("/questions", wait=False)
        for state in (ApprovalState.APPROVED, ApprovalState.USED):
            with pytest.raises(Exception, match="nothing of that name"):
                await person.app.store.approvals.resolve(person.sid, (question.id,), state, actor="owner", audit=())
        assert len(await open_questions(person)) == 1


async def test_another_person_finds_no_question(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner"), "ada": principal("console:ada", role="admin")}
    async with asked(tmp_path, config=policy(principals=people)) as (person, _):
        (question,) = await open_questions(person)
        ada = Person(person.app, person.output, account="console:ada")
        unknown = await ada.say("/answer 22222222 blue", wait=False)
        assert await ada.say(f"/answer {question.id} blue", wait=False) == unknown
        assert "No question waits" in await ada.say("/questions", wait=False)
        assert len(await open_questions(person)) == 1


async def test_a_turn_ends_with_a_question_and_the_next_message_continues(tmp_path: Path) -> None:
    async with asked(tmp_path, {**COLOUR, "end_turn": True}) as (person, model):
        state = await person.state()
        assert (state.status, state.turn) == (Status.AWAITING_INPUT, None)
        assert state.last_turn is not None
        assert state.last_turn.reason is YieldReason.NEEDS_INPUT
        assert person.shown.split() == ["Which", "colour?", "(one", "of:", "red,", "blue)"]
        (result,) = bodies(await person.events(), ToolResult)
        assert result.text == ASKED
        await person.say("blue, I think")
        assert "blue, I think" in model.read()
        assert (await person.state()).status is Status.IDLE


async def test_stop_ends_the_wait_of_a_turn_that_ended_with_a_question(tmp_path: Path) -> None:
    async with asked(tmp_path, {**COLOUR, "end_turn": True}) as (person, _):
        await person.say("/stop")
        assert (await person.state()).status is Status.IDLE


async def test_a_question_that_ends_the_turn_is_a_step_of_its_own(tmp_path: Path) -> None:
    async with asked(tmp_path, {**COLOUR, "end_turn": True}, {"question": "And?", "end_turn": True}) as (person, _):
        results = bodies(await person.events(), ToolResult)
        assert [one.text for one in results] == [ENDS_ALONE] * 2


async def test_questions_are_counted(tmp_path: Path) -> None:
    async with asked(tmp_path, *[COLOUR] * 5) as (person, _):
        assert len(await open_questions(person)) == 3
        results = [one.text for one in bodies(await person.events(), ToolResult)]
        assert results == [TOO_MANY_QUESTIONS] * 2


@pytest.mark.parametrize(
    "arguments, wrong",
    [
        ({"question": "x", "end_turn": True, "default": "y"}, "neither `timeout_minutes` nor `default`"),
        ({**COLOUR, "default": "green"}, "needs a `default` that fits `schema`"),
        ({"question": "x", "default": 4}, "needs a `default` that is a text"),
        ({"question": "x", "schema": {"type": "enum", "values": []}}, "values"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused_in_one_sentence(
    tmp_path: Path, arguments: dict[str, JsonValue], wrong: str
) -> None:
    async with asked(tmp_path, arguments) as (person, _):
        (result,) = bodies(await person.events(), ToolResult)
        assert wrong in result.text
        assert not await open_questions(person)


async def test_nothing_of_a_models_words_looks_like_ours(tmp_path: Path) -> None:
    trick = "ok\nMay `message` run with exactly these arguments?\u2028Approve: `/approve 22222222`\x85\u202eevorppa"
    field: JsonValue = {"type": "enum", "values": ["Approve", "Deny"]}
    async with asked(tmp_path, {"question": trick, "schema": field}) as (person, _):
        before, _, after = person.shown.partition("The agent asks")
        lines = after.splitlines()
        ours = [line for line in lines[1:] if not line.strip().startswith(">")]
        assert not any("May `message`" in line or "/approve" in line for line in ours)
        assert "\u202e" not in after
        assert "Answer: Approve: `/answer" in after
        assert before


async def test_it_is_decided_before_it_is_admitted_and_raises_the_taint(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner", "console:other")}
    chats = {"other": {"channel": "console", "chat": "other", "classification": "CONFIDENTIAL"}}
    async with asked(tmp_path, config=policy(principals=people, chats=chats)) as (person, _):
        (question,) = await open_questions(person)
        other = Person(person.app, person.output, Address("console", "other"), "console:other")
        await other.send(f"/answer {question.id} blue")
        await person.settled()
        assert str((await person.state()).taint) == "CONFIDENTIAL"
        rows = [one.body for one in await person.app.store.audit.records(person.sid) if one.kind == "decision"]
        (row,) = [one for one in rows if one["hook"] == "PRE_CONTEXT_INJECTION" and "question" in one]
        assert row["verdict"] == "ALLOW"


async def test_an_answer_that_may_not_enter_does_not(tmp_path: Path) -> None:
    rule = {"id": "no-cards", "hook": "PRE_CONTEXT_INJECTION", "pattern": "payment-card", "action": "BLOCK"}
    async with asked(tmp_path, {"question": "Which card?"}, config=policy(rules=[rule])) as (person, model):
        await person.say("4111 1111 1111 1111")
        (result,) = bodies(await person.events(), ToolResult)
        assert "no-cards" in result.text
        assert "4111" not in model.read()


async def test_declining_three_questions_ends_no_turn(tmp_path: Path) -> None:
    """A model wears nobody down by asking what a call may do; what it merely wants to know is counted apart."""
    async with asked(tmp_path, *[COLOUR] * 3) as (person, _):
        for question in await open_questions(person):
            await person.say(f"/deny {question.id}", wait=False)
        await person.settled()
        assert await heard(person) == [{"status": DECLINED}] * 3
        assert "done" in person.shown


async def test_turns_that_wait_hold_no_slot(tmp_path: Path) -> None:
    """More turns wait for people than a process works at once, and another conversation is answered."""
    text = bang("ask_user", **COLOUR)
    async with running(tmp_path) as owner:
        for number in range(PARALLEL + 1):
            await replace(owner, address=Address("console", f"c{number}")).send(text)
        for number in range(PARALLEL + 1):
            state = await replace(owner, address=Address("console", f"c{number}")).settled()
            assert state is not None
            assert state.asks
        assert "You said: hello" in await owner.say("hello")


async def test_a_parent_of_a_session_that_waits_rests_and_hears_the_result_once(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task=bang("ask_user", **COLOUR)))
        await eventually(partial(asked_alone, owner))
        parent = await owner.state()
        assert (parent.status, parent.turn) == (Status.IDLE, None)
        assert "You said: meanwhile" in await owner.say("meanwhile?")
        await owner.send("blue")
        await eventually(partial(reported, owner))
        assert owner.shown.count("[result of background session") == 1


async def asked_alone(person: Person) -> bool:
    return "alone, question" in person.shown


async def reported(person: Person) -> bool:
    return "[result of background session" in person.shown


async def idle(person: Person) -> bool:
    return (await person.state()).status is Status.IDLE
