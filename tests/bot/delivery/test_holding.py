"""What is held is told to its person, alone, cleared for it, once; and nobody below learns anything by that."""

import json
import re
from pathlib import Path

import pytest

from bot.commands.held_messages import SHARED
from bot.core.errors import ArchivedError, in_sentences
from bot.delivery.question_updates import NOT_HELD
from bot.sessions.background.delegation import PendingMessage
from bot.sessions.deliveries import DeliveryState
from channels.messages import Address, How, Outbound
from tests.bot.board import Board
from tests.bot.kit import bang, eventually, policy
from tests.bot.rooms import TEAM, talking, team
from tests.channels.contract import until
from tests.harness import Person, running
from tests.people import principal
from tests.store.world import put_state

pytestmark = pytest.mark.anyio

READS = bang("read_file", path="confidential/pipeline.md")
PEOPLE = {"owner": principal("console:owner", "console:desk")}
DEAL = "the deal is on"


def send(sid: str, text: str = DEAL) -> str:
    return bang("sessions_send", session_id=sid, content=text)


async def sent(owner: Person, text: str = DEAL) -> Person:
    """Send a text to the owner's session at the desk, from one that has read more; return who sits there."""
    desk = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
    await desk.say("hello")
    await owner.say(READS)
    await owner.say(send(desk.sid, text))
    return desk


async def kept(desk: Person) -> None:
    """Wait until something is held at the desk."""

    async def held() -> bool:
        return bool(await desk.app.store.delegation.held(desk.sid))

    await eventually(held)


async def notices(person: Person) -> list[str]:
    """Return the texts of the notices about held items in a session's outbox."""
    return [one.text for one in await person.app.store.outbox.deliveries(person.sid) if one.holds]


async def test_a_held_message_is_told_once_and_accepted_by_its_button(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals=PEOPLE)) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
        await desk.say("hello")
        before, events = await desk.state(), len(await desk.events())
        await owner.say(READS)
        await owner.say(send(desk.sid))
        (item,) = await owner.app.store.delegation.held(desk.sid)
        (notice,) = await notices(owner)
        assert notice.startswith(f"Held as {item.id} at CONFIDENTIAL~: session {owner.sid} sent something that this")
        assert DEAL not in notice
        assert DEAL in await desk.say(f"/held show {item.id}")
        # Told at the desk's own private chat, in the sender's outbox: nothing of the desk's session changed.
        assert "→ desk: Held as" in owner.shown
        assert (await desk.state(), len(await desk.events())) == (before, events)
        (button,) = set(re.findall(r"- Accept: `(.*)`", notice))
        assert button == f"/held accept {item.id}"
        shown = await desk.say(button)
        assert "is accepted" in shown
        await desk.settled()
        assert str((await desk.state()).taint) == "CONFIDENTIAL~"
        assert DEAL in str([event.body for event in await desk.events()])
        assert len(await notices(owner)) == 1


@pytest.mark.parametrize("pressed, done", [("Show", DEAL), ("Accept", "is accepted"), ("Drop", "is dropped")])
async def test_each_button_of_the_notice_does_what_it_says(tmp_path: Path, pressed: str, done: str) -> None:
    async with running(tmp_path, policy(principals=PEOPLE)) as owner:
        desk = await sent(owner)
        (notice,) = await notices(owner)
        (line,) = re.findall(f"- {pressed}: `(.*)`", notice)
        before = len(owner.shown)
        await desk.send(line, how=How.BUTTON)
        await desk.settled()
        assert done in owner.shown[before:]


async def test_a_long_one_is_cut_and_shown_whole_when_asked_for(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals=PEOPLE)) as owner:
        desk = await sent(owner, "x" * 400 + "end")
        (item,) = await owner.app.store.delegation.held(desk.sid)
        assert f"`/held show {item.id}` shows it all" in await desk.say("/held")
        assert "xend" in await desk.say(f"/held show {item.id}")
        assert "Write it as" in await desk.say("/held show")


async def test_a_rule_that_keeps_the_notice_back_keeps_it_back(tmp_path: Path) -> None:
    rules = [
        {
            "id": "quiet",
            "hook": "PRE_OUTPUT",
            "channels": ["console"],
            "action": "BLOCK",
            "when": "taint_level >= CONFIDENTIAL",
        }
    ]
    async with running(tmp_path, policy(principals=PEOPLE, rules=rules)) as owner:
        await kept(await sent(owner))
        assert await notices(owner) == []


async def test_where_nobody_reads_alone_and_cleared_nothing_is_told(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner", "console:desk")}
    places = {
        "owner": {"channel": "console", "chat": "owner", "clearance": "INTERNAL"},
        "desk": {"channel": "console", "chat": "desk", "clearance": "INTERNAL"},
    }
    async with running(tmp_path, policy(principals=people, recipients=places)) as owner:
        await kept(await sent(owner))
        assert await notices(owner) == []
        assert "Held as" not in owner.shown


async def test_a_notice_is_for_its_person_and_carries_the_label_of_what_it_tells(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals=PEOPLE)) as owner:
        await sent(owner)
        (one,) = [one for one in await owner.app.store.outbox.deliveries(owner.sid) if one.holds]
        assert (one.state, one.meant_for, str(one.label)) == (DeliveryState.SENT, "owner", "CONFIDENTIAL~")


async def test_what_has_ended_takes_nothing_in_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, policy(principals=PEOPLE)) as owner:
        desk = await sent(owner)
        (item,) = await owner.app.store.delegation.held(desk.sid)
        await put_state(owner.app.store, desk.sid, status="archived")
        shown = await owner.say("/held")
        assert "drop with" in shown
        assert "accept with" not in shown
        assert in_sentences(ArchivedError()) in await owner.say(f"/held accept {item.id}")
        assert "is dropped" in await owner.say(f"/held drop {item.id}")


async def test_a_message_is_a_command_and_carries_what_is_typed_there(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READS)
        # What the conversation has read is not what its person types.
        shown = await owner.say("/message console guest we are open")
        assert "accepted for guest" in shown
        assert "→ guest: we are open" in owner.shown
        assert "unknown recipient" in await owner.say("/message console gest hi")
        assert "Write it as" in await owner.say("/message console guest")


async def test_agents_tells_each_task(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await owner.send("hello")
        await owner.send("/spawn look at the harbour and " + "tell " * 40)
        await owner.send("/agents")
        assert ": look at the harbour and tell" in owner.shown
        assert re.search(r"tell .{0,4} …", owner.shown)


async def test_what_a_session_sent_names_it_and_no_person(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task="look", title="the harbour"))

        async def reported() -> bool:
            return "result of background session" in owner.shown

        await eventually(reported)
        await owner.settled()
        (child,) = await owner.app.store.delegation.slots("owner")
        assert f"session {child.sid}, PUBLIC" in await owner.say("/history")
        assert f'"by": "session {child.sid}"' in await owner.say(bang("sessions_history", session_id=owner.sid))
        assert f"session {owner.sid}, PUBLIC: look" in await owner.say(f"/agents log {child.run}")
        assert ": the harbour" in await owner.say("/agents")


async def test_a_result_above_its_conversation_is_told_and_let_in_by_its_button(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task=READS))

        async def told() -> bool:
            return "Held as" in owner.shown

        await eventually(told)
        before = [event.type for event in await owner.events()]
        assert str((await owner.state()).taint) == "PUBLIC"
        (line,) = set(re.findall(r"- Accept: `(/held accept \w+)`", owner.shown))
        (slot,) = await owner.app.store.delegation.slots("owner")
        assert (
            f"background session {slot.sid} reported something that this conversation may not read yet" in owner.shown
        )
        await owner.say(line)
        await owner.settled()
        assert str((await owner.state()).taint) == "CONFIDENTIAL~"
        assert f"by an input from session {slot.sid}" in await owner.say("/taint")
        assert len(await owner.events()) > len(before)
        assert "No message of another session is held." in await owner.say("/held")


async def test_what_is_held_for_its_bits_says_so(tmp_path: Path) -> None:
    async with running(tmp_path, json.dumps({"limits": {"endorsed_bits": 0}})) as owner:
        call = bang("sessions_spawn", task="look", returns={"yes": {"type": "boolean"}})
        assert '"answer": "held"' in await owner.say(call)

        async def told() -> bool:
            return "Held as" in owner.shown

        await eventually(told)
        (slot,) = await owner.app.store.delegation.slots("owner")
        why = "reported more than may be endorsed (`endorsed_bits`), so this conversation may not read it yet"
        assert f"background session {slot.sid} {why}." in owner.shown
        assert "more than that has read" not in owner.shown


async def test_what_came_for_a_shared_chat_is_told_to_whoever_set_it_going(tmp_path: Path) -> None:
    rooms = team("ann", "mel")
    chats = {"team": {"channel": "room", "chat": "team", "classification": "CONFIDENTIAL", "inbound": "PUBLIC"}}
    async with talking(tmp_path, rooms, chats=chats) as people:
        alone = Address("room", "ann")
        await people.say("ann", bang("sessions_spawn", task=READS))

        async def told() -> bool:
            return any("Held as" in text for text in rooms.heard(alone))

        await eventually(told)
        assert not any("Held as" in text for text in rooms.heard(TEAM))
        (item,) = await people.app.store.delegation.held(people.app.session_id(TEAM))
        (notice,) = [one for one in rooms.sent if one.address == alone and "Held as" in one.text]
        assert [button.command for button in notice.buttons] == [
            f"/held {word} {item.id}" for word in ("show", "accept", "drop")
        ]
        # Mel may not know it, and somebody who is no admin raises no shared chat.
        await people.say("mel", f"/held accept {item.id}", Address("room", "mel"))
        assert "is accepted" not in "".join(rooms.said)
        await people.say("ann", f"/held accept {item.id}", alone)
        assert "is accepted" in rooms.heard(alone)[-1]


async def test_only_an_admin_lets_something_into_a_shared_chat(tmp_path: Path) -> None:
    rooms = team("mel")
    chats = {"team": {"channel": "room", "chat": "team", "classification": "INTERNAL", "inbound": "PUBLIC"}}
    async with talking(tmp_path, rooms, chats=chats) as people:
        alone = Address("room", "mel")
        await people.say("mel", bang("sessions_spawn", task=bang("read_file", path="internal/handbook.md")))

        async def told() -> bool:
            return any("Held as" in text for text in rooms.heard(alone))

        await eventually(told)
        (item,) = await people.app.store.delegation.held(people.app.session_id(TEAM))
        await people.say("mel", f"/held accept {item.id}", alone)
        assert rooms.heard(alone)[-1] == SHARED
        await people.say("mel", f"/held drop {item.id}", alone)
        assert await people.app.store.delegation.held(people.app.session_id(TEAM)) == ()


BOARDS = {
    "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
    "board": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
}


@pytest.mark.parametrize("ends", ["/held accept {}", "/held drop {}", "/reset confirm"])
async def test_a_notice_loses_its_buttons_once_its_item_is_decided_about(tmp_path: Path, ends: str) -> None:
    board = Board()
    people = {"owner": {**PEOPLE["owner"], "accounts": ["console:owner", "board:desk"]}}
    config = policy(principals=people, channels=BOARDS, recipients={})
    async with running(tmp_path, config, channels=[board]) as owner:
        desk = Person(owner.app, owner.output, Address("board", "desk"), "board:desk")
        await desk.say("hello")
        await owner.say(READS)
        for text in (DEAL, "the deal is off"):
            await owner.say(send(desk.sid, text))
        first, second = await owner.app.store.delegation.held(desk.sid)

        def notice(item: PendingMessage) -> Outbound:
            (found,) = [one for one in board.at("desk") if one.text.startswith(f"Held as {item.id}")]
            return found

        await until(lambda: len(board.at("desk")) == 3)
        await owner.app.question_updates.sweep()
        assert (len(notice(first).buttons), len(notice(second).buttons), board.edits) == (3, 3, 0)
        await desk.say(ends.format(first.id))
        await owner.app.question_updates.sweep()
        await until(lambda: not notice(first).buttons)
        assert notice(first).text.endswith(f"{first.id}: {NOT_HELD}")
        assert "/held" not in notice(first).text
        await owner.settled()
        # A reset drops them all.
        assert len(notice(second).buttons) == (0 if ends.startswith("/reset") else 3)
        edits = board.edits
        await owner.app.question_updates.sweep()
        await owner.settled()
        assert (board.edits, await owner.app.store.question_copies.copies()) == (edits, ())
