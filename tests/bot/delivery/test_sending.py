"""Sessions that send one another something: delivered, held, let in, refused, and never a loop."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from bot.agent.offline import OfflineModel
from bot.commands.held_messages import NOTHING
from bot.core.errors import NotFoundError, in_sentences
from bot.sessions.background.delegation import MOST_HOPS, Arrival
from bot.sessions.deliveries import RISEN, Delivery, DeliveryState, NewDelivery
from bot.sessions.log.event_types import UserMessage
from bot.sessions.log.events import Event
from bot.sessions.models import Write
from bot.tools.sending import ITSELF, OVER
from bot.tools.sessions import NONE
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bot.kit import bang, eventually, handoff, parts, policy, results
from tests.harness import Person, running
from tests.people import principal

pytestmark = pytest.mark.anyio

READS = bang("read_file", path="confidential/pipeline.md")
POLICY = {
    "recipients": {
        "owner": {"channel": "console", "chat": "owner", "clearance": "top"},
        "desk": {"channel": "console", "chat": "desk", "clearance": "top"},
        "lobby": {"channel": "console", "chat": "lobby", "clearance": "INTERNAL"},
        "ann": {"channel": "console", "chat": "ann", "clearance": "top"},
    },
    "principals": {
        "owner": principal("console:owner", "console:desk", "console:lobby"),
        "ann": principal("console:ann", role="member"),
    },
}


def at(owner: Person, chat: str) -> Person:
    return Person(owner.app, owner.output, Address("console", chat), f"console:{chat}")


def send(sid: str, text: str) -> str:
    return bang("sessions_send", session_id=sid, content=text)


def typed(sid: str, text: str) -> str:
    return f"/send {sid} {text}"


def heard(events: Sequence[Event]) -> list[str]:
    """Return what a session heard from others."""
    return [
        event.body.text for event in events if isinstance(event.body, UserMessage) and event.body.origin is not None
    ]


async def hears(person: Person, count: int = 1) -> list[str]:
    """Wait until a session heard so much, and its turn is over."""

    async def did() -> bool:
        return len(heard(await person.events())) >= count

    await eventually(did)
    await person.settled()
    return heard(await person.events())


async def test_what_is_sent_is_a_message_that_is_not_the_users(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY)) as owner:
        desk = at(owner, "desk")
        await desk.say("hello")
        assert '{"status": "accepted", "receipt": "receipt-' in await owner.say(send(desk.sid, "please look"))
        assert await hears(desk) == ["please look"]
        assert f"→ desk: You said: [message from session {owner.sid}, not your user]\n  please look" in owner.shown
        assert heard(await owner.events()) == []
        assert [one.state for one in await owner.app.store.outbox.deliveries(owner.sid)][:1] == [DeliveryState.SENT]


async def test_what_is_above_it_is_held_until_its_person_lets_it_in(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY)) as owner:
        lobby = at(owner, "lobby")
        await lobby.say("hello")
        before = await lobby.state()
        await owner.say(READS)
        assert '{"status": "accepted", "receipt": "receipt-' in await owner.say(send(lobby.sid, "the deal is on"))
        assert await lobby.state() == before
        (item,) = await owner.app.store.delegation.held(lobby.sid)

        # Nobody hears of it where it may not be known, not even by its id.
        assert await lobby.say("/held") == f"→ lobby: {NOTHING}\n"
        absent = await lobby.say("/held accept nothing")
        assert await lobby.say(f"/held accept {item.id}") == absent
        assert in_sentences(NotFoundError()) in absent

        shown = await owner.say("/held")
        assert f"{item.id} from session {owner.sid} for session {lobby.sid}" in shown
        assert "which would then have read CONFIDENTIAL~: the deal is on" in shown
        assert "is accepted" in await owner.say(f"/held accept {item.id}")
        assert await hears(lobby) == ["the deal is on"]
        assert str((await lobby.state()).taint) == "CONFIDENTIAL~"
        # What its model answers to that may not be said where it lives, nor that it answered: nobody asked it there.
        assert "→ lobby: answer: refused" not in owner.shown
        assert "You said: [message" not in owner.shown
        assert NOTHING in await owner.say("/held")
        rows = [record.body for record in await owner.app.store.audit.records(lobby.sid) if record.kind == "held"]
        assert [(row["item"], row["accepted"]) for row in rows] == [(item.id, True)]


async def test_what_a_person_refuses_is_gone(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY)) as owner:
        desk = at(owner, "desk")
        await desk.say("hello")
        await owner.say(READS)
        await owner.say(send(desk.sid, "the deal is on"))
        (item,) = await owner.app.store.delegation.held(desk.sid)
        assert "is dropped" in await desk.say(f"/held drop {item.id}")
        assert NOTHING in await desk.say("/held list")
        assert (await desk.state()).taint == PUBLIC
        assert "Write it as" in await desk.say("/held maybe x")


class Echo(OfflineModel):
    """A model that sends back whatever another session says to it."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        answer = await super().request(messages, model_settings, model_request_parameters)
        last = messages[-1]
        if isinstance(last, ModelRequest) and isinstance(last.parts[0], UserPromptPart):
            sender = re.match(r"\[message from session (\w+)", str(last.parts[0].content))
            if sender:
                answer.parts = [ToolCallPart("sessions_send", {"session_id": sender[1], "content": "and you?"})]
        return answer


async def test_sessions_that_answer_one_another_stop(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY), parts=parts(model=Echo())) as owner:
        desk = at(owner, "desk")
        await desk.say("hello")
        await owner.say(send(desk.sid, "how are you?"))
        assert len(await hears(desk, 3)) == 3
        assert len(await hears(owner, 2)) == 2
        assert results(await desk.events())[-1] == ("sessions_send", "failed")
        assert f"this came through {MOST_HOPS} sessions already" in owner.shown


async def test_absent_anothers_and_hidden_are_one_answer(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY)) as owner:
        ann, desk = at(owner, "ann"), at(owner, "desk")
        await ann.say("hello")
        await desk.say(READS)
        for made in (send, typed):
            lobby = at(owner, "lobby")
            await lobby.say("hello")
            answers = {await lobby.say(made(sid, "hi")) for sid in ("nowhere", ann.sid, desk.sid)}
            assert len(answers) == 1
            assert NONE in answers.pop()
        assert heard(await ann.events()) == heard(await desk.events()) == []


async def test_a_person_sends_at_the_label_of_what_he_types(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY)) as owner:
        desk = at(owner, "desk")
        await desk.say("hello")
        await owner.say(READS)
        assert "It was accepted. `/status receipt-" in await owner.say(f"/send {desk.sid} lunch at noon")
        assert await hears(desk) == ["lunch at noon"]
        assert (await desk.state()).taint == PUBLIC
        assert ITSELF in await owner.say(f"/send {owner.sid} hi")
        assert "Write it as" in await owner.say("/send somebody")
        assert "this session has no parent" in await owner.say("/send parent hi")


async def test_a_send_to_what_is_over_says_so_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY)) as owner:
        await owner.say(bang("sessions_spawn", task="look"))

        async def over() -> bool:
            (slot,) = await owner.app.store.delegation.slots("owner")
            return not slot.live

        await eventually(over)
        (slot,) = await owner.app.store.delegation.slots("owner")
        assert OVER in await owner.say(send(slot.sid, "one more thing"))


async def test_what_was_sent_before_a_reset_is_dropped(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY), serve=False) as owner:
        desk = at(owner, "desk")
        await desk.send("hello")
        await owner.send("hello")
        await owner.app.store.sessions.reset(desk.sid, op="o", actor="owner", audit=())
        address = Address("session", desk.sid, "owner", "1")
        assert await sent(owner, address) is Arrival.RESET
        assert await sent(owner, Address("session", desk.sid, "owner", "2")) is Arrival.WAITING


async def sent(owner: Person, address: Address) -> Arrival | None:
    """Hand something over as an outbox does that finds it pending."""
    delivery = Delivery(
        owner.sid, str(address), str(address), "hi", PUBLIC, "message", "t", DeliveryState.SENDING, 1, 1, 1, ()
    )
    return await handoff(owner.app.store).hand_over(delivery, "hi")


async def test_a_child_speaks_to_its_parent_before_it_is_done(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY)) as owner:
        task = "\n".join((send("parent", "half way"), READS, send("parent", "the deal is on")))
        await owner.say(bang("sessions_spawn", task=task))
        assert await hears(owner, 2) == ["half way", RISEN]

        async def held() -> list[str]:
            return [item.body.text for item in await owner.app.store.delegation.held(owner.sid)]

        async def both() -> bool:
            return len(await held()) == 2

        await eventually(both)
        assert (await held())[0] == "the deal is on"
        assert len(heard(await owner.events())) == 2
        assert (await owner.state()).taint == PUBLIC


@pytest.mark.parametrize("hook, tools", [("PRE_TOOL_CALL", ["sessions_send"]), ("PRE_OUTPUT", [])])
async def test_a_rule_stops_what_sessions_send(tmp_path: Path, hook: str, tools: list[str]) -> None:
    rule = {"id": "no-sending", "hook": hook, "pattern": "payment-card", "action": "BLOCK"}
    rules = [{**rule, "tools": tools} if tools else rule]
    async with running(tmp_path, policy(**POLICY, rules=rules)) as owner:
        desk = at(owner, "desk")
        await desk.say("hello")
        assert "no-sending" in await owner.say(send(desk.sid, "4111 1111 1111 1111"))
        await owner.say(f"/send {desk.sid} 4111 1111 1111 1111")
        assert heard(await desk.events()) == []
        assert (await desk.state()).waiting_items == 0


async def test_a_full_inbox_is_tried_again_and_a_session_that_is_gone_sends_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY, blocks={"limits": {"inbox_items": 1}}), serve=False) as owner:
        desk = at(owner, "desk")
        there = Address("session", desk.sid, "owner", "1")
        assert await sent(owner, there) is Arrival.ABSENT
        await owner.send("hello")
        await desk.send("hello")
        await owner.say(f"/send {desk.sid} this fills what sessions may have waiting there", wait=False)
        assert await sent(owner, there) is None
        assert "It was accepted. `/status receipt-" in await owner.say(f"/send {desk.sid} hi", wait=False)
        assert [one.state for one in await owner.app.store.outbox.deliveries(owner.sid)] == [
            DeliveryState.SENT,
            DeliveryState.PENDING,
        ]
        await owner.app.store.sessions.stop(desk.sid, actor="owner")
        await owner.app.outbox.collect(owner.sid)
        assert [one.state for one in await owner.app.store.outbox.deliveries(owner.sid)] == [DeliveryState.SENT] * 2
        assert (await desk.state()).waiting_items == 1


async def test_what_a_dead_process_left_in_the_outbox_is_delivered_once(tmp_path: Path) -> None:
    async with running(tmp_path, policy(**POLICY), serve=False) as owner:
        app, desk = owner.app, at(owner, "desk")
        await desk.send("hello")
        await owner.send("hello")
        claim = await app.store.sessions.claim(owner.sid, app.ids.owner())
        assert claim is not None
        there = str(Address("session", desk.sid, "owner", "1"))
        new = NewDelivery("k", there, "please look", PUBLIC, "message", hops=1)
        await app.store.sessions.commit(claim, Write(app.ids.op(), claim.state.seq, deliver=(new,)), sender="dead")
        (left,) = await app.store.outbox.deliveries(owner.sid)
        # It had handed the text over when it died, and nobody knows.
        assert await handoff(app.store).hand_over(left, left.text) is Arrival.WAITING
        await app.store.outbox.settle(left, "dead", DeliveryState.AMBIGUOUS)
        await app.store.outbox.settle(left, "dead", DeliveryState.PENDING)
        await app.outbox.collect(owner.sid)
        assert [one.state for one in await app.store.outbox.deliveries(owner.sid)] == [DeliveryState.SENT]
        assert (await desk.state()).waiting_items == 2
