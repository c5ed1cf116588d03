"""What could not be delivered is told to whoever asked: once before the next answer, and in `/status`."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bot.delivery.undelivered import GONE, REFUSED
from bot.sessions.deliveries import OURS, DeliveryState, NewDelivery
from channels.messages import Address, Outbound, OutboundKind
from channels.port import AmbiguousSendError, ChannelError, GoneError
from policy.labels import PUBLIC, Label
from tests.bot.kit import CONFIDENTIAL, bang, eventually
from tests.bot.rooms import CHATS, PEOPLE, TEAM, People, Rooms, talking, team
from tests.store.world import pass_time

pytestmark = pytest.mark.anyio

MEL = Address("room", "mel")
EVE = Address("room", "eve")
EQUALS = {**PEOPLE, "mel": {**PEOPLE["mel"], "clearance": "CONFIDENTIAL"}}
OPEN = {"team": {**CHATS["team"], "inbound": "PUBLIC"}}


@dataclass
class Failing(Rooms):
    """Rooms in which nothing can be said, as long as there is a reason."""

    fails: Exception | None = None

    async def send(self, outbound: Outbound) -> str:
        if self.fails is not None:
            raise self.fails
        return await super().send(outbound)


def failing(*readers: str) -> Failing:
    return Failing(team(*readers).readers)


def undelivered(said: list[str]) -> list[str]:
    return [one for one in said if "could not be delivered" in one]


async def lost(people: People, text: str, who: str = "mel", address: Address = MEL) -> None:
    """Say something whose answer is delivered to nobody."""
    rooms = people.rooms
    assert isinstance(rooms, Failing)
    rooms.fails = GoneError("blocked")
    await people.say(who, text, address)
    await settled(people, address)
    rooms.fails = None


async def settled(people: People, address: Address) -> None:
    sid = people.app.session_id(address)

    async def nothing_waits() -> bool:
        state = await people.app.store.sessions.state(sid)
        return state is not None and not state.undelivered

    await eventually(nothing_waits)


async def left(people: People, address: Address, label: Label = PUBLIC, **more: str) -> None:
    """Leave something undelivered in the session of an address."""
    rooms, store, home = people.rooms, people.app.store, more.pop("session", "")
    assert isinstance(rooms, Failing)
    sid = people.app.session_id(Address.parse(home) if home else replace(address, recipient=""))
    key = f"left {len(await store.outbox.deliveries(sid))}"
    rooms.fails = GoneError("blocked")
    new = NewDelivery(key, str(address), "the plan", label, OutboundKind.ANSWER, "t", approved=OURS)
    await store.outbox.put(sid, replace(new, **more))  # pyright: ignore[reportArgumentType] - its fields
    await people.app.outbox.collect(sid)

    async def dead() -> bool:
        found = {one.key: one.state for one in await store.outbox.deliveries(sid)}
        return found[key] is DeliveryState.FAILED

    await eventually(dead)
    rooms.fails = None


async def test_it_is_told_once_before_the_next_answer(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        await lost(people, "first")
        await people.say("mel", "second", MEL)
        await people.say("mel", "third", MEL)
        told, second, third = people.rooms.heard(MEL)
        assert re.fullmatch(rf"My answer of \d\d:\d\d UTC could not be delivered, {GONE}\. `/history` shows it\.", told)
        assert ("second" in second, "third" in third) == (True, True)
        await people.say("mel", "/history", MEL)
        assert "first" in people.rooms.heard(MEL)[-1]


async def test_several_are_told_in_one_line(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        for number in range(3):
            await lost(people, f"lost {number}")
        await people.say("mel", "and now?", MEL)
        (told,) = undelivered(people.rooms.heard(MEL))
        assert "; nor could 2 before it" in told
        assert len(people.rooms.heard(MEL)) == 2


async def test_one_whose_telling_is_lost_too_is_told_with_the_next(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        await lost(people, "first")
        await lost(people, "second")
        await people.say("mel", "third", MEL)
        (told,) = undelivered(people.rooms.heard(MEL))
        assert "; nor could 1 before it" in told


async def test_what_was_told_is_not_told_with_what_is_lost_later(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        await lost(people, "first")
        await people.say("mel", "second", MEL)
        await lost(people, "third")
        await people.say("mel", "fourth", MEL)
        assert ["nor could" in one for one in undelivered(people.rooms.heard(MEL))] == [False, False]


async def test_one_that_failed_every_time_is_told_as_that(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        await people.say("mel", "hello", MEL)
        sid = people.app.session_id(MEL)
        rooms = people.rooms
        assert isinstance(rooms, Failing)
        rooms.fails = ChannelError("no")
        await people.send("mel", "first", MEL)

        async def failed() -> bool:
            last = (await people.app.store.outbox.deliveries(sid))[-1]
            if last.state is DeliveryState.PENDING:
                await pass_time(people.app.store, sid, last.key)
                await people.app.outbox.collect(sid)
            return last.state is DeliveryState.FAILED

        await eventually(failed)
        rooms.fails = None
        await people.say("mel", "second", MEL)
        (told,) = undelivered(rooms.heard(MEL))
        assert REFUSED in told


async def test_what_is_retried_and_said_is_told_of_no_more(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        await lost(people, "first")
        sid = people.app.session_id(MEL)
        (dead,) = [one for one in await people.app.store.outbox.deliveries(sid) if one.state is DeliveryState.FAILED]
        await people.app.store.outbox.decide_dead(dead, again=True, audit=())
        await people.app.outbox.collect(sid)
        await people.say("mel", "second", MEL)
        assert undelivered(people.rooms.heard(MEL)) == []


async def test_what_may_have_been_seen_is_named_by_status_alone(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        rooms = people.rooms
        assert isinstance(rooms, Failing)
        rooms.fails = AmbiguousSendError("lost")
        await people.say("mel", "first", MEL)
        rooms.fails = None
        await people.say("mel", "second", MEL)
        assert undelivered(rooms.heard(MEL)) == []
        await people.say("mel", "/status", MEL)
        assert "perhaps not delivered: answer of " in rooms.heard(MEL)[-1]
        assert "nobody knows whether it was seen" in rooms.heard(MEL)[-1]


async def test_status_names_what_was_not_delivered(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        await people.say("mel", "/status", MEL)
        await lost(people, "first")
        await people.say("mel", "/status", MEL)
        assert re.search(rf"not delivered: answer of \d{{4}}-.* UTC, {GONE}", people.rooms.heard(MEL)[-1])
        await people.say("mel", "/reset confirm", MEL)
        await people.say("mel", "/status", MEL)
        assert "not delivered" not in people.rooms.heard(MEL)[-1]
        await people.say("mel", "second", MEL)
        assert undelivered(people.rooms.heard(MEL)) == []


async def test_status_names_the_newest_and_how_many_are_before_them(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        await people.say("mel", "hello", MEL)
        for _ in range(7):
            await left(people, MEL)
        await people.say("mel", "/status", MEL)
        assert people.rooms.heard(MEL)[-1].count("not delivered: ") == 5
        assert people.rooms.heard(MEL)[-1].endswith("and 2 before these")


async def test_no_read_up_nothing_is_told_below_what_was_not_delivered(tmp_path: Path) -> None:
    async with talking(tmp_path, failing("ann"), chats=OPEN) as people:
        await people.say("ann", "hello")
        await left(people, TEAM, CONFIDENTIAL)
        people.rooms.readers[TEAM.chat] = frozenset({"room:ann", "room:mel"})
        before = len(people.rooms.sent)
        await people.say("mel", "and now?")
        assert [one.text for one in people.rooms.sent[before:]] == ["You said: and now?"]
        await people.say("mel", "/status")
        assert "delivered" not in people.rooms.alone("mel")[-1]
        assert "session" in people.rooms.alone("mel")[-1]
        await people.say("ann", "/status")
        assert "not delivered: answer of" in people.rooms.alone("ann")[-1]
        # Where all may know of it by then, it is told there.
        people.rooms.readers[TEAM.chat] = frozenset({"room:ann"})
        await people.say("ann", "and now?")
        assert len(undelivered(people.rooms.heard(TEAM))) == 1


async def test_above_its_address_a_conversation_tells_of_nothing(tmp_path: Path) -> None:
    async with talking(tmp_path, failing("ann")) as people:
        await people.say("ann", bang("read_file", path="confidential/pipeline.md"))
        await lost(people, "first", "ann", TEAM)
        people.rooms.readers[TEAM.chat] = frozenset({"room:ann", "room:mel"})
        before = len(people.rooms.heard(TEAM))
        await people.say("mel", "and now?")
        assert undelivered(people.rooms.said) == []
        assert len(people.rooms.heard(TEAM)[before:]) == 1
        await people.say("mel", "/status")
        assert "delivered" not in people.rooms.alone("mel")[-1]


async def test_what_was_for_one_alone_is_told_to_that_person_alone(tmp_path: Path) -> None:
    async with talking(tmp_path, failing("ann", "mel"), principals=EQUALS) as people:
        await people.say("ann", "hello")
        alone = replace(TEAM, recipient="mel")
        await left(people, alone, kind=OutboundKind.NOTICE, meant_for="mel")
        await people.say("ann", "and now?")
        assert undelivered(people.rooms.said) == []
        await people.say("ann", "/status")
        assert "delivered" not in people.rooms.alone("ann")[-1]
        await people.say("mel", "and now?")
        (told,) = undelivered(people.rooms.said)
        assert people.rooms.alone("mel") == [told]
        assert told.startswith("My notice of ")


async def test_what_was_for_somewhere_else_is_told_nobody_here(tmp_path: Path) -> None:
    async with talking(tmp_path, failing()) as people:
        await people.say("mel", "hello", MEL)
        await left(people, EVE, session=str(MEL), kind=OutboundKind.MESSAGE)
        await people.say("mel", "and now?", MEL)
        await people.say("mel", "/status", MEL)
        assert "delivered" not in "\n".join(people.rooms.heard(MEL))


async def test_it_has_the_label_of_what_was_not_delivered_and_its_decision_is_in_the_audit(tmp_path: Path) -> None:
    async with talking(tmp_path, failing("ann")) as people:
        await people.say("ann", bang("read_file", path="confidential/pipeline.md"))
        await lost(people, "first", "ann", TEAM)
        await people.say("ann", "second")
        store, sid = people.app.store, people.app.session_id(TEAM)
        (told,) = [one for one in await store.outbox.deliveries(sid) if one.key.endswith("-undelivered")]
        (failed,) = [one for one in await store.outbox.deliveries(sid) if one.state is DeliveryState.FAILED]
        assert (told.label, told.kind, told.approved) == (failed.label, OutboundKind.NOTICE, OURS)
        assert failed.label.level is CONFIDENTIAL.level
        *_, notice, answer = [row for row in await store.audit.records(sid) if row.body.get("destination") == str(TEAM)]
        assert (notice.body["verdict"], answer.body["verdict"]) == ("ALLOW", "ALLOW")


async def test_a_question_that_was_not_delivered_is_asked_again_when_somebody_writes(tmp_path: Path) -> None:
    rule = {"id": "ask", "hook": "PRE_TOOL_CALL", "tools": ["current_time"], "action": "REQUIRE_APPROVAL"}
    async with talking(tmp_path, failing(), rules=[rule]) as people:
        rooms, store, sid = people.rooms, people.app.store, people.app.session_id(MEL)
        assert isinstance(rooms, Failing)
        rooms.fails = GoneError("blocked")
        await people.send("mel", bang("current_time"), MEL)

        async def unasked() -> bool:
            here = [one for one in await store.outbox.deliveries(sid) if one.address == str(MEL)]
            found = [one for one in here if one.kind == OutboundKind.QUESTION]
            return bool(found) and all(one.state is DeliveryState.FAILED for one in found)

        await eventually(unasked)
        # Written while nothing can be said yet, it is tried once and no more.
        await people.send("mel", "hello?", MEL)

        async def tried() -> bool:
            return "retry" in [row.body.get("what") for row in await store.audit.records(sid)] and await unasked()

        await eventually(tried)
        assert [row.kind for row in await store.audit.records(sid)].count("deadletter") == 1
        rooms.fails = None
        await people.send("mel", "are you there?", MEL)

        async def asked() -> bool:
            return bool(rooms.heard(MEL))

        await eventually(asked)
        (question,) = [one for one in rooms.sent if one.address == MEL]
        assert question.kind is OutboundKind.QUESTION
        await people.send("mel", "and now?", MEL)

        async def looked() -> bool:
            return any("wait" in text for text in rooms.heard(MEL)[1:])

        await people.send("mel", "/queue", MEL)
        await eventually(looked)
        assert [one.kind for one in rooms.sent if one.address == MEL].count(OutboundKind.QUESTION) == 1
