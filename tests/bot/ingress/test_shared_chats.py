"""A shared chat: a principal of its own, that may do no more than whoever asks there, and tells him alone."""

from pathlib import Path

import pytest

from bot.access.pairing import ASK_ALONE, NOT_YOURS
from bot.access.principals import of_chat
from bot.commands.admin.classify import NOT_CLASSIFIED
from bot.commands.sessions import NOTHING_SAID
from bot.delivery.outbox import WITHHELD_REPLY
from bot.ingress.router import Routed
from bot.sessions.deliveries import DeliveryState
from bot.sessions.log.event_types import UserMessage
from bot.sessions.log.events import EventType
from bot.worker.finish import DENIED_HERE
from channels.messages import Address, How
from policy.labels import parse
from tests.bot.kit import CONFIDENTIAL, bang, eventually
from tests.bot.rooms import CHATS, PEOPLE, TEAM, talking, team
from tests.events import body_of

pytestmark = pytest.mark.anyio

THREAD = Address("room", "team", thread="7")


async def test_what_is_not_meant_for_the_bot_is_nothing_to_it(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), serve=False) as people:
        receipt = await people.send("ann", "lunch?", addressed=False)
        assert receipt.outcome is Routed.IGNORED
        assert await people.app.store.sessions.state(receipt.sid) is None


async def test_a_chat_is_a_principal_with_its_own_session(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann")) as people:
        receipt = await people.say("ann", "hello")
        state = await people.app.store.sessions.state(receipt.sid)
        assert state is not None
        assert state.principal == of_chat(TEAM) == "chat:room::team:"
        assert state.taint == CONFIDENTIAL
        assert people.rooms.heard(TEAM) == ["You said: hello"]
        rows = [row async for row in people.app.chains.records(receipt.sid) if row.kind == "decision"]
        assert {row.actor for row in rows} == {"ann"}
        # Nobody finds it among his own.
        await people.say("ann", "/sessions")
        assert receipt.sid not in str(people.rooms.said)


async def test_threads_are_sessions_of_one_chat(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann")) as people:
        first, second = await people.say("ann", "one"), await people.say("ann", "two", THREAD)
        assert first.sid != second.sid
        assert people.rooms.heard(THREAD) == ["You said: two"]


async def test_whoever_asks_there_reads_no_more_than_he_may(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), chats={"team": {**CHATS["team"], "inbound": "PUBLIC"}}) as people:
        receipt = await people.say("mel", bang("read_file", path="confidential/pipeline.md"))
        state = await people.app.store.sessions.state(receipt.sid)
        assert state is not None
        assert state.taint.level < CONFIDENTIAL.level
        assert "Veldhaven" not in str(people.rooms.said)


async def test_an_answer_above_a_reader_is_withheld_and_its_asker_is_told_alone(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel")) as people:
        await people.say("ann", bang("read_file", path="confidential/pipeline.md"))
        assert people.rooms.heard(TEAM) == [DENIED_HERE]
        (told,) = people.rooms.alone("ann")
        assert "no_write_down" in told
        assert "Veldhaven" not in str(people.rooms.said)


async def test_what_a_command_tells_goes_to_whoever_typed_it(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann")) as people:
        await people.say("ann", "hello")
        await people.say("ann", "/taint")
        assert people.rooms.heard(TEAM) == ["You said: hello"]
        (told,) = people.rooms.alone("ann")
        assert "Taint CONFIDENTIAL" in told


async def test_whoever_reads_a_shared_chat_gets_a_copy_of_it_alone(tmp_path: Path) -> None:
    """What they may read of it: the messages of others too, and nothing once the chat has read more than they may."""
    lower = {"team": {**CHATS["team"], "classification": "INTERNAL"}}
    async with talking(tmp_path, team("ann", "mel"), chats=lower) as people:
        await people.say("mel", "/export")
        assert people.rooms.alone("mel") == [NOTHING_SAID]
        receipt = await people.say("ann", "the quay is open")
        await people.say("mel", "/export")
        file = people.rooms.alone("mel")[-1]
        assert '"lockgate.export"' in file.splitlines()[0]
        assert "the quay is open" in file
        assert people.rooms.heard(TEAM) == ["You said: the quay is open"]
        # In another chat it is as if there were none.
        await people.say("mel", f"/export {receipt.sid}", Address("room", "mel"))
        assert "There is nothing of that name here" in people.rooms.heard(Address("room", "mel"))[-1]
        await people.say("ann", "/taint raise CONFIDENTIAL")
        await people.say("mel", "/export")
        assert people.rooms.alone("mel")[-1] == WITHHELD_REPLY


@pytest.mark.parametrize("who", ["eve", "stranger"])
@pytest.mark.parametrize("text", ["hello", "/status"])
async def test_a_stranger_in_a_shared_chat_learns_nothing_at_all(tmp_path: Path, who: str, text: str) -> None:
    async with talking(tmp_path, team("ann", "mel")) as people:
        receipt = await people.say(who, text)
        assert receipt.outcome is Routed.REFUSED
        assert people.rooms.sent == []
        assert await people.app.store.sessions.state(receipt.sid) is None


async def test_a_chat_nobody_classified_is_isolated(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel"), chats={}) as people:
        receipt = await people.say("ann", "hello")
        assert receipt.outcome is Routed.ANSWERED
        assert await people.app.store.sessions.state(receipt.sid) is None
        assert people.rooms.said[0] == NOT_CLASSIFIED
        assert people.rooms.sent[0].address.recipient == "ann"
        # Who may classify it is told so in private.
        assert [said.address.chat for said in people.rooms.sent[1:]] == ["ann"]


async def test_in_a_blocked_chat_nobody_is_told_anything(tmp_path: Path) -> None:
    chats = {"team": {**CHATS["team"], "blocked": True}}
    limits = {"limits": {"person_messages_per_minute": 2}}
    async with talking(tmp_path, team("ann", "mel"), chats=chats, blocks=limits) as people:
        for _ in range(4):
            assert (await people.say("mel", "hello")).outcome is Routed.IGNORED
        await people.say("zoe", "/approve zzzz", how=How.BUTTON)
        assert people.rooms.said == []
        # An admin's commands go on, or nobody could take it back there.
        assert (await people.say("ann", "/classify")).outcome is Routed.ANSWERED
        assert "blocked" in people.rooms.alone("ann")[0]


async def test_what_others_wrote_is_untrusted_whoever_quotes_it(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann")) as people:
        receipt = await people.say("ann", "look at this", quoted=("do as I say\nnow",))
        state = await people.app.store.sessions.state(receipt.sid)
        assert state is not None
        assert state.taint == parse("CONFIDENTIAL~")
        assert "> do as I say\n> now" in people.rooms.heard(TEAM)[0]
        # What the next turn reads is the log.
        (asked,) = [
            one for one in await people.app.store.sessions.events(receipt.sid) if one.type is EventType.USER_MESSAGE
        ]
        assert "> do as I say\n> now" in body_of(asked, UserMessage).text


async def test_a_rule_on_messages_sees_what_is_quoted(tmp_path: Path) -> None:
    rule = {"id": "no-cards", "hook": "PRE_CONTEXT_INJECTION", "pattern": "payment-card", "action": "BLOCK"}
    async with talking(tmp_path, team("ann"), rules=[rule]) as people:
        await people.say("ann", "look at this", quoted=("4111 1111 1111 1111",))
        assert people.rooms.heard(TEAM) == [DENIED_HERE]


async def test_a_button_is_no_more_than_the_command_it_stands_for(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel")) as people:
        for text in ("/reset confirm", "hello", "/quit"):
            receipt = await people.say("ann", text, how=How.BUTTON)
            assert receipt.outcome is Routed.IGNORED
        assert (await people.say("mel", "/approve zzzz", how=How.BUTTON)).outcome is Routed.ANSWERED
        (told,) = people.rooms.alone("mel")
        assert told.startswith("There is nothing of that name here. `/approvals` lists what waits; ")


@pytest.mark.parametrize(
    "who, told", [("zoe", ASK_ALONE), ("eve", NOT_YOURS), ("mel", NOT_YOURS)], ids=["stranger", "guest", "member"]
)
async def test_who_may_not_press_a_button_is_told_so_alone(tmp_path: Path, who: str, told: str) -> None:
    """Somebody who waits for what a button does learns that it does nothing, and a stranger how to ask."""
    paired = {"role": "member", "clearance": "INTERNAL"}
    async with talking(tmp_path, team("ann", "mel"), paired=paired) as people:
        for number in range(2):
            receipt = await people.say(who, "/classify room:team PUBLIC", how=How.BUTTON, press=f"p{number}")
            assert receipt.outcome is Routed.REFUSED
        assert people.rooms.alone(who) == people.rooms.said == [told, told]
        assert [outbound.press for outbound in people.rooms.sent] == ["p0", "p1"]
        await people.say("ann", "/approve zzzz", how=How.BUTTON, press="p2")
        assert people.rooms.sent[-1].press == "p2"


async def test_a_stranger_who_presses_and_presses_is_told_less_and_less_often(tmp_path: Path) -> None:
    async with talking(tmp_path, team("ann", "mel")) as people:
        await people.say("zoe", "hello")
        for _ in range(9):
            await people.say("zoe", "/approve zzzz", how=How.BUTTON)
        assert people.rooms.alone("zoe") == people.rooms.said == [NOT_YOURS] * 4
        await people.say("ann", "/block room:zoe")
        said = len(people.rooms.sent)
        for address in (TEAM, Address("room", "zoe")):
            await people.say("zoe", "/approve zzzz", address, how=How.BUTTON)
        assert len(people.rooms.sent) == said


async def test_a_stranger_who_presses_in_his_own_chat_is_told_how_to_ask_once(tmp_path: Path) -> None:
    paired = {"role": "member", "clearance": "INTERNAL"}
    async with talking(tmp_path, team("ann", "mel"), paired=paired) as people:
        for _ in range(2):
            await people.say("zoe", "/approve zzzz", Address("room", "zoe"), how=How.BUTTON)
        asked, pressed = people.rooms.said
        assert "Give an admin of this bot the code" in asked
        assert pressed == NOT_YOURS


async def test_a_person_who_is_removed_while_a_turn_waits_gets_nothing_more(tmp_path: Path) -> None:
    others = {name: entry for name, entry in PEOPLE.items() if name != "ann"}
    async with talking(tmp_path, team("ann", "mel"), serve=False) as people:
        await people.send("ann", "hello")
    async with talking(tmp_path, team("ann", "mel"), principals=others) as people:

        async def told() -> bool:
            found = await people.app.store.outbox.deliveries(people.app.session_id(TEAM))
            return bool(found) and all(one.state is not DeliveryState.PENDING for one in found)

        await eventually(told)
        assert "You said" not in str(people.rooms.said)


async def test_a_child_of_a_shared_chat_may_do_no_more_than_who_asked_for_it(tmp_path: Path) -> None:
    chats = {"team": {**CHATS["team"], "inbound": "PUBLIC"}}
    async with talking(tmp_path, team("ann", "mel"), chats=chats) as people:
        await people.say("mel", bang("sessions_spawn", task=bang("read_file", path="confidential/pipeline.md")))

        async def reported() -> bool:
            return len(people.rooms.heard(TEAM)) > 1

        await eventually(reported)
        assert "Veldhaven" not in str(people.rooms.said)
