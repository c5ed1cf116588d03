"""What may not be read or said in a shared chat is offered to whoever asked, alone, and had where it may be."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bot.access.decision_context import Call
from bot.access.principals import of_chat
from bot.app.app import App
from bot.commands.alternatives import NO_SUCH_WAY, NOT_BEGUN, TAKEN
from bot.delivery.alternatives import WITHHELD, BoundText, question
from bot.ingress.router import Routed
from bot.sessions.deliveries import DeliveryState
from bot.sessions.log.event_types import UserMessage
from bot.sessions.log.events import EventType, NewEvent
from bot.sessions.messages import Origin, OriginKind
from bot.sessions.models import Status, Turn, Write
from bot.sessions.refs import EventsRef
from bot.worker.finish import DENIED_HERE
from channels.messages import Address, How, OutboundKind
from channels.port import Audience
from policy.labels import parse
from tests.bot.kit import INTERNAL, bang, eventually, results, standing, unanswered
from tests.bot.rooms import CHANNELS, PEOPLE, TEAM, People, Rooms, talking, team
from tests.events import body_of
from tests.people import principal

pytestmark = pytest.mark.anyio

QUESTION = bang("read_file", path="confidential/pipeline.md")
KNOWN = "Veldhaven"
HOUSE = Address("room", "ann")
ABSENT = "There is nothing of that name here."
ASKING: dict[str, Any] = {
    "channels": {**CHANNELS, "room": {"classification": "CONFIDENTIAL", "overshoot": "ask"}},
    "chats": {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL"}},
}
VAULT = {"vault": {"channel": "room", "chat": "vault", "clearance": "CONFIDENTIAL"}}
KEEPER = {**PEOPLE, "vic": principal("room:vault", role="member", clearance="CONFIDENTIAL")}


def offered(people: People, who: str = "ann") -> str:
    """Return the code of the last offer that somebody got to see in the team's room."""
    return re.findall(r"/deny (\w+)", people.rooms.alone(who)[-1])[-1]


async def until_heard(people: People, text: str, address: Address) -> None:
    async def heard() -> bool:
        return any(text in said for said in people.rooms.heard(address))

    await eventually(heard)


async def test_what_could_not_be_told_in_a_chat_is_not_read_and_offered_to_its_asker_alone(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), **ASKING, recipients={}) as people:
        receipt = await people.say("ann", QUESTION)
        state = await people.app.store.sessions.state(receipt.sid)
        assert state is not None
        assert state.taint == INTERNAL
        assert people.rooms.heard(TEAM) == [DENIED_HERE]
        (told,) = [sent for sent in people.rooms.sent if sent.address.recipient == "ann"]
        assert "read_is_decided_before_it_happens" in told.text
        assert "CONFIDENTIAL" not in told.text
        code = offered(people)
        assert told.kind is OutboundKind.OFFER
        assert [button.command for button in told.buttons] == [f"/continue {code}", f"/deny {code}"]
        events = await people.app.store.sessions.events(receipt.sid)
        assert results(events) == [("read_file", "denied")]
        assert not unanswered(events)
        assert KNOWN not in str(people.rooms.said)


async def test_a_question_goes_on_in_private_with_the_label_of_where_it_was_typed(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), **ASKING) as people:
        receipt = await people.say("ann", QUESTION)
        code = offered(people)
        pressed = await people.say("ann", f"/continue {code}", how=How.BUTTON)
        assert pressed.outcome is Routed.ANSWERED
        await until_heard(people, KNOWN, HOUSE)
        assert KNOWN not in str([sent for sent in people.rooms.sent if sent.address != HOUSE])
        events = await people.app.store.sessions.events(people.app.session_id(HOUSE))
        (asked,) = [event for event in events if event.type is EventType.USER_MESSAGE]
        assert (body_of(asked, UserMessage).text, asked.label, asked.actor) == (QUESTION, INTERNAL, "ann")
        # Pressed again it is the same once more, and nothing else is to be had.
        await people.say("ann", f"/continue {code}")
        assert len([sent for sent in people.rooms.heard(HOUSE) if KNOWN in sent]) == 1
        await people.say("ann", f"/deny {code}")
        assert people.rooms.alone("ann")[-1] == TAKEN
        rows = [row.body["step"] async for row in people.app.chains.records(receipt.sid) if row.kind == "offer"]
        rows += [row.body["way"] async for row in people.app.chains.records("audit") if row.kind == "offer"]
        assert rows == ["made", "private", "private"]


async def test_all_that_was_asked_in_one_turn_goes_on_in_private(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), **ASKING, serve=False) as people:
        await people.send("ann", QUESTION)
        await people.send("ann", "and who wrote it", quoted=("a letter",))
    async with talking(tmp_path, team("ann"), **ASKING) as people:
        await people.settled()
        await people.say("ann", f"/continue {offered(people)}")
        await until_heard(people, KNOWN, HOUSE)
        events = await people.app.store.sessions.events(people.app.session_id(HOUSE))
        (asked,) = [event for event in events if event.type is EventType.USER_MESSAGE]
        assert body_of(asked, UserMessage).text.startswith(f"{QUESTION}\n\nand who wrote it\n\n[quoted")
        assert asked.label == parse("INTERNAL~")


async def test_what_was_quoted_stays_untrusted_in_private(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), **ASKING) as people:
        await people.say("ann", QUESTION, quoted=("and tell everybody",))
        await people.say("ann", f"/continue {offered(people)}")
        await people.settled(HOUSE)
        events = await people.app.store.sessions.events(people.app.session_id(HOUSE))
        (asked,) = [event for event in events if event.type is EventType.USER_MESSAGE]
        assert asked.label == parse("INTERNAL~")
        assert "> and tell everybody" in body_of(asked, UserMessage).text


@pytest.mark.parametrize("command", ["continue", "background", "deny"])
async def test_an_offer_is_as_if_there_were_none_to_anybody_else(tmp_path: Path, command: str) -> None:
    async with talking(tmp_path, team("ann", "mel"), **ASKING) as people:
        await people.say("ann", QUESTION)
        code = offered(people)
        await people.say("mel", f"/{command} {code}")
        await people.say("mel", f"/{command} zzzzzzzz")
        told, of_none = people.rooms.alone("mel")
        assert told == of_none
        assert told.startswith(ABSENT)
        known = await people.app.store.alternatives.offer(code)
        assert known is not None
        assert known[1] is None
        assert await people.app.store.sessions.state(people.app.session_id(HOUSE)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"binding": "of something else"},
        {"turn": "another"},
        {"generation": 7},
        {"sid": "nowhere"},
        {"told": parse("CONFIDENTIAL")},
        {"private": "room::mel:"},
        {"private": ""},
    ],
)
async def test_an_offer_counts_for_what_it_was_made_for(tmp_path: Path, change: dict[str, Any]) -> None:
    async with talking(tmp_path, team("ann", "mel"), **ASKING) as people:
        await people.say("ann", QUESTION)
        known = await people.app.store.alternatives.offer(offered(people))
        assert known is not None
        await people.app.store.alternatives.make_offer(replace(known[0], **change), 60_000)
        await people.say("ann", f"/continue {known[0].code}")
        assert people.rooms.alone("ann")[-1] == (NO_SUCH_WAY if "private" in change else ABSENT)
        assert await people.app.store.sessions.state(people.app.session_id(HOUSE)) is None
        assert await people.app.store.alternatives.offer(known[0].code) == (replace(known[0], **change), None)


async def test_an_offer_is_taken_from_anywhere_it_may_be_told(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), **ASKING) as people:
        await people.say("ann", QUESTION)
        await people.say("ann", f"/continue {offered(people).upper()}", HOUSE)
        await until_heard(people, KNOWN, HOUSE)


async def test_a_refused_read_is_offered_by_whoever_goes_on_after_a_crash(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), serve=False, **ASKING) as people:
        receipt = await people.send("ann", QUESTION)
        store = people.app.store
        claim = await store.sessions.claim(receipt.sid, "p-gone.x")
        assert claim is not None
        # All that a worker wrote that died before the end of the turn: the message, and no call.
        told = NewEvent("ann", claim.items[0].label, UserMessage(QUESTION), admitted=True, turn="t1")
        turn = Turn("t1", 1, claim.items[0].dedupe, "ann", claim.now)
        await store.sessions.record(
            claim, Write("op", claim.state.seq, events=(told,), take=1, turn=turn, status=Status.RUNNING, release=True)
        )
    async with talking(tmp_path, people.rooms, **ASKING) as people:
        await people.settled()
        assert people.rooms.heard(TEAM) == [DENIED_HERE]
        assert "/continue" in people.rooms.alone("ann")[0]


async def test_nothing_is_left_of_an_offer_after_a_reset(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), **ASKING) as people:
        await people.say("ann", QUESTION)
        code = offered(people)
        await people.say("ann", "/reset confirm")
        await people.say("ann", f"/continue {code}")
        assert people.rooms.alone("ann")[-1] == ABSENT
        assert await people.app.store.sessions.state(people.app.session_id(HOUSE)) is None


async def test_who_may_not_know_it_anywhere_is_offered_nothing(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), **ASKING) as people:
        receipt = await people.say("mel", QUESTION)
        assert people.rooms.heard(TEAM) == [DENIED_HERE]
        assert results(await people.app.store.sessions.events(receipt.sid)) == [("read_file", "denied")]
        (told,) = people.rooms.alone("mel")
        assert "read_is_decided_before_it_happens" in told
        assert "offered" not in told


@pytest.mark.parametrize("overshoot", ["block", "allow"])
async def test_only_a_place_that_asks_offers(tmp_path: Path, overshoot: str) -> None:
    chats: Any = {"team": {**ASKING["chats"]["team"], "overshoot": overshoot}}
    sections: dict[str, Any] = {**ASKING, "chats": chats}
    async with talking(tmp_path, team("ann"), **sections) as people:
        await people.say("ann", QUESTION)
        assert people.rooms.alone("ann") == []
        assert KNOWN not in str(people.rooms.said)


async def test_a_background_session_does_it_and_tells_who_is_cleared(tmp_path: Path) -> None:
    sections: dict[str, Any] = {**ASKING, "recipients": VAULT, "principals": KEEPER}
    async with talking(tmp_path, team("ann", "mel"), **sections) as people:
        await people.say("ann", QUESTION)
        code = offered(people)
        (told,) = [sent for sent in people.rooms.sent if sent.kind is OutboundKind.OFFER]
        assert f"/background {code} vault" in [button.command for button in told.buttons]
        await people.say("ann", f"/background {code} vault")
        assert people.rooms.alone("ann")[-1] == NOT_BEGUN
        await people.say("ann", "hello", HOUSE)
        await people.say("ann", f"/background {code} elsewhere")
        assert people.rooms.alone("ann")[-1] == NO_SUCH_WAY
        await people.say("ann", f"/background {code}")
        await until_heard(people, KNOWN, Address("room", "vault"))
        slots = await people.app.store.delegation.slots("ann")
        assert [slot.parent for slot in slots] == [people.app.session_id(HOUSE)]
        await people.say("ann", f"/continue {code}")
        assert people.rooms.alone("ann")[-1] == TAKEN
        assert KNOWN not in str(people.rooms.heard(TEAM) + people.rooms.alone("ann") + people.rooms.alone("mel"))


async def test_an_offer_that_is_let_be_is_gone(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), **ASKING) as people:
        await people.say("ann", QUESTION)
        code = offered(people)
        await people.say("ann", f"/deny {code}")
        await people.say("ann", f"/continue {code}")
        assert people.rooms.alone("ann")[-2:] == [f"Offer {code} is declined.", TAKEN]
        assert await people.app.alternatives.buttons(code) == ()


async def test_an_answer_that_somebody_who_joined_may_not_hear_is_offered_in_private(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), serve=False) as people:
        await people.send("ann", QUESTION)
        people.rooms.readers[TEAM.chat] |= {"room:eve"}
    async with talking(tmp_path, people.rooms) as people:
        await people.settled()
        assert people.rooms.heard(TEAM) == [DENIED_HERE]
        await people.say("ann", f"/continue {offered(people)}")
        await people.settled()
        (answer,) = people.rooms.heard(HOUSE)
        assert KNOWN in answer
        assert KNOWN not in str([sent for sent in people.rooms.sent if sent.address != HOUSE])
        every = await people.app.store.outbox.deliveries(people.app.session_id(TEAM))
        assert [one.meant_for for one in every if one.address == str(HOUSE)] == ["ann"]
        # Said as it was, from the log: nobody was asked anew.
        assert await people.app.store.sessions.state(people.app.session_id(HOUSE)) is None


@dataclass
class Doorway(Rooms):
    """Rooms where Eve comes in as soon as something is to be said to the team."""

    app: App | None = None

    async def audience(self, address: Address) -> Audience:
        if self.app is not None and await self.app.store.outbox.deliveries(self.app.session_id(TEAM)):
            self.readers[TEAM.chat] |= {"room:eve"}
        return await super().audience(address)


async def test_an_answer_withheld_at_the_moment_of_sending_is_offered_in_private(tmp_path: Path) -> None:
    rooms = Doorway({TEAM.chat: frozenset({"room:ann"})})
    async with talking(tmp_path, rooms, serve=False) as people:
        await people.send("ann", QUESTION)
    async with talking(tmp_path, rooms) as people:
        rooms.app = people.app
        await until_heard(people, WITHHELD, replace(TEAM, recipient="ann"))
        assert people.rooms.heard(TEAM) == []
        sid = people.app.session_id(TEAM)
        states = {entry.kind: entry.state for entry in await people.app.store.outbox.deliveries(sid)}
        assert states == {"answer": DeliveryState.WITHHELD, "offer": DeliveryState.SENT}
        before = await people.app.store.sessions.events(sid)
        await people.say("ann", f"/continue {offered(people)}", how=How.BUTTON)
        await until_heard(people, KNOWN, HOUSE)
        assert KNOWN not in str([sent for sent in people.rooms.sent if sent.address != HOUSE])
        # From the log, and nobody was asked anew.
        assert await people.app.store.sessions.events(sid) == before
        rows = [row.kind async for row in people.app.chains.records(sid)]
        assert "withheld" in rows
        assert rows.count("offer") == 1


async def test_what_a_lowered_clearance_forbids_is_not_told_in_private_either(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), serve=False) as people:
        await people.send("ann", QUESTION)
        people.rooms.readers[TEAM.chat] |= {"room:eve"}
    async with talking(tmp_path, people.rooms) as people:
        await people.settled()
        code = offered(people)
    lowered = {**PEOPLE, "ann": {**PEOPLE["ann"], "clearance": "INTERNAL"}}
    async with talking(tmp_path, people.rooms, principals=lowered) as people:
        await people.say("ann", f"/continue {code}")
        await people.settled()
        assert people.rooms.heard(HOUSE) == []
        assert KNOWN not in str(people.rooms.said)


async def test_an_answer_that_a_rule_refused_is_not_offered(tmp_path: Path) -> None:
    rule = {"id": "quiet", "hook": "PRE_OUTPUT", "channels": ["room"], "taint": ">= CONFIDENTIAL", "action": "BLOCK"}
    async with talking(tmp_path, team("ann"), rules=[rule]) as people:
        await people.say("ann", QUESTION)
        assert people.rooms.heard(TEAM) == [DENIED_HERE]
        assert "/continue" not in str(people.rooms.said)


async def test_a_question_of_another_session_is_nobodys_to_ask_anew(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann"), **ASKING) as people:
        receipt = await people.say("ann", "hello")
        events = await people.app.store.sessions.events(receipt.sid)
        asked = question(events, events[-1].turn)
        assert asked is not None
        here = standing(asked.label, principal=of_chat(TEAM), asker="ann", home=TEAM)
        call = Call("c1", "read_file", {"path": "confidential/pipeline.md"})
        assert await people.app.alternatives.reading(here, call, asked) is not None
        sent = UserMessage("hello", Origin(OriginKind.MESSAGE, "s2"))
        also = replace(events[-1], body=sent)
        from_session = question((*events, also), also.turn)
        seqs = (asked.refs[0].first, also.seq)
        refs = tuple(EventsRef(seq, seq) for seq in seqs)
        assert from_session == BoundText("hello\n\nhello", asked.label, foreign=True, refs=refs)
        assert from_session is not None
        assert await people.app.alternatives.reading(here, call, from_session) is None
