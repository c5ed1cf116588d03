"""Where an agent's question is asked, who finds it there, and what a shared chat's other people can do about it."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from pydantic import JsonValue

from bot.app.extensions import Extensions
from bot.delivery.asker_questions import NOWHERE
from bot.delivery.question_prompts import wording
from bot.ingress.router import Routed
from bot.sessions.approvals import AnswerValue, Approval, ApprovalState
from bot.sessions.background.delegation import SESSION
from bot.sessions.log.event_types import ToolResult
from bot.sessions.models import Status
from bot.tools.base import Result
from channels.messages import Address, OutboundKind
from policy.labels import parse
from tests.bot.kit import Probe, Scripted, bang, eventually, parts, policy, proposed
from tests.bot.rooms import CHANNELS, PEOPLE, TEAM, People, talking, team
from tests.events import bodies
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

ASK: Final[dict[str, JsonValue]] = {"question": "Which day?", "schema": {"type": "boolean"}}
OPEN: Final = {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL"}}
ANN: Final = Address("room", "ann")


def asking(*before: object) -> Extensions:
    """Return a model that asks its asker, after these steps, and ends."""
    return parts(model=Scripted(*before, [proposed("ask_user", ASK)], "done"))  # pyright: ignore[reportArgumentType] - steps


async def waiting(people: People, who: str) -> list[Approval]:
    found = [one for _, one in await people.app.store.approvals.questions(who)]
    return [one for one in found if one.state is ApprovalState.PENDING]


async def test_a_shared_chat_hears_the_question_and_its_asker_alone_answers(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), parts=asking(), chats=OPEN) as people:
        await people.say("ann", "go")
        (question,) = await waiting(people, "ann")
        asked = [one for one in people.rooms.sent if one.kind is OutboundKind.QUESTION]
        assert {one.address for one in asked} == {TEAM, ANN}
        assert all(one.text.startswith(f"The agent asks `ann`, question {question.id}:") for one in asked)
        assert [one.label for one in asked[0].buttons] == ["Answer: yes", "Answer: no"]
        # Another person's words wait as their own message; their command finds what an unknown id finds.
        assert (await people.send("mel", "yes")).outcome is Routed.ACCEPTED
        await people.send("mel", f"/answer {question.id} yes")
        await people.send("mel", "/answer 22222222 yes")
        first, second = people.rooms.alone("mel")[-2:]
        assert first == second
        await people.send("mel", f"/deny {question.id}")
        assert people.rooms.alone("mel")[-1] == first
        await people.send("mel", "/questions")
        assert "No question waits" in people.rooms.alone("mel")[-1]
        assert await waiting(people, "ann") == [question]
        assert (await people.send("ann", "yes")).outcome is Routed.ANSWERED
        await people.settled()
        events = await people.app.store.sessions.events(question.sid, limit=1000)
        (result,) = bodies(events, ToolResult)
        assert json.loads(result.text) == {"status": "answered", "answer": True}
        (event,) = [one for one in events if isinstance(one.body, ToolResult)]
        assert str(event.label) == "INTERNAL"


async def test_it_is_told_until_when_an_answer_counts_and_what_counts_without_one(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), parts=asking()) as people:
        await people.say("ann", "go")
        (question,) = await waiting(people, "ann")

        def told(minutes: int, default: AnswerValue | None) -> str:
            return wording(replace(question, expires_at=minutes * 60_000 + 1, default=default), 0).splitlines()[-1]

        assert told(90, None) == "After 90 min no answer counts."
        assert told(24 * 60, "later") == "Without an answer within 24 hours, `later` counts."
        assert told(60, default=False) == "Without an answer within 1 hour, `no` counts."
        # A model's words are not told as ours.
        for words in ("yes`. Ask `/approve", "\u202eyes", "yes\nno"):
            assert told(60, words) == "Without an answer within 1 hour, a default counts."


async def test_a_reply_in_ones_private_chat_answers_what_was_asked_in_a_shared_one(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), parts=asking()) as people:
        await people.say("ann", "go")
        (question,) = await waiting(people, "ann")
        assert (await people.send("ann", "no", ANN)).outcome is Routed.ANSWERED
        await people.settled()
        (event,) = [
            one
            for one in await people.app.store.sessions.events(question.sid, limit=1000)
            if isinstance(one.body, ToolResult)
        ]
        # The label is that of where it was typed: nobody classified this private chat higher.
        assert str(event.label) == "PUBLIC"
        assert await people.app.store.sessions.state(people.app.session_id(ANN)) is None


async def test_a_question_goes_nowhere_its_asker_may_not_read_it_and_the_agent_is_told(tmp_path: Path) -> None:
    probe = Probe(result=Result("secret", parse("RESTRICTED")), name="probe")
    model = Scripted([proposed("probe", {})], [proposed("ask_user", ASK)], "done")
    people = {"owner": principal("console:owner"), "ann": principal("room:ann", clearance="RESTRICTED")}
    async with talking(tmp_path, team("ann"), parts=parts(probe, model=model), principals=people, chats={}) as talk:
        await talk.say("ann", "go", ANN)
        assert await waiting(talk, "ann") == []
        events = await talk.app.store.sessions.events(talk.app.session_id(ANN), limit=1000)
        assert NOWHERE in [one.text for one in bodies(events, ToolResult)]
        assert not any(one.kind is OutboundKind.QUESTION for one in talk.rooms.sent)


async def test_a_rule_on_what_agents_say_keeps_a_question_back(tmp_path: Path) -> None:
    rule = {"id": "ask-first", "hook": "PRE_OUTPUT", "action": "REQUIRE_APPROVAL", "channels": ["console"]}
    async with running(tmp_path, policy(rules=[rule]), parts=asking()) as person:
        await person.say("go")
        assert NOWHERE in [one.text for one in bodies(await person.events(), ToolResult)]


async def test_a_background_session_asks_its_person_alone(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(bang("sessions_spawn", task=bang("ask_user", **ASK)))

        async def asked() -> bool:
            return "alone, question" in person.shown

        await eventually(asked)
        ((state, question),) = await person.app.store.approvals.questions("owner")
        assert (Address.parse(state.home).channel, state.status) == (SESSION, Status.AWAITING_INPUT)
        assert state.lineage is not None
        assert question.expires_at <= state.lineage.deadline
        assert (await person.send("yes")).outcome is Routed.ANSWERED

        async def told() -> bool:
            return "[result of background session" in person.shown and '"answer": true' in person.shown

        await eventually(told)


async def test_another_channel_is_asked_only_where_it_is_cleared(tmp_path: Path) -> None:
    people = {**PEOPLE, "ann": principal("room:ann", "console:ann", role="admin", clearance="CONFIDENTIAL")}
    channels = {**CHANNELS, "room": {"classification": "PUBLIC", "overshoot": "allow"}}
    probe = Probe(result=Result("secret", parse("INTERNAL")))
    model = Scripted([proposed("probe", {})], [proposed("ask_user", ASK)], "done")
    recipients = {"desk": {"channel": "console", "chat": "ann", "clearance": "CONFIDENTIAL"}}
    async with talking(
        tmp_path,
        team("ann"),
        parts=parts(probe, model=model),
        principals=people,
        channels=channels,
        recipients=recipients,
        chats={},
    ) as talk:
        person = Person(talk.app, io.StringIO(), Address("console", "ann"), "console:ann")
        await person.say("go")
        (question,) = await waiting(talk, "ann")
        assert question.places == ("console::ann:",)
