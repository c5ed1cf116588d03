"""Delegating after something UNTRUSTED was read: who is asked by a background session, where, and what comes of it."""

import asyncio
import io
import json
from pathlib import Path

import pytest

from bot.gate.calls import NOBODY_ALONE
from bot.sessions.approvals import ApprovalState
from bot.sessions.log.event_types import ToolResult, YieldReason
from bot.sessions.log.events import EventType
from bot.sessions.models import SessionState, Status
from bot.store.records.kinds import APPROVAL
from bot.tools.base import CallFacts
from bot.worker.turn_runner import TOO_LATE
from channels.messages import Address
from tests.bot.kit import Probe, bang, eventually, note, parts, policy, results
from tests.bot.rooms import TEAM, Rooms, talking, team
from tests.harness import Person, running
from tests.people import principal
from tests.sim.web import web
from tests.store.world import alter, end_by, keys

pytestmark = pytest.mark.anyio

READS = bang("read_file", path="public/welcome.md")
SECRET = bang("read_file", path="confidential/pipeline.md")


def spawn(task: str, **more: object) -> str:
    return bang("sessions_spawn", task=task, **more)  # pyright: ignore[reportArgumentType] - what a model may say


async def children(person: Person, principal: str = "owner") -> list[SessionState]:
    slots = await person.app.store.delegation.slots(principal)
    found = [await person.app.store.sessions.state(slot.sid) for slot in slots]
    return [state for state in found if state is not None]


async def asking(person: Person, principal: str = "owner") -> SessionState:
    """Wait until a background session has said its question, and return it."""

    async def asks() -> bool:
        return any(state.asks and not state.undelivered for state in await children(person, principal))

    await eventually(asks)
    return next(state for state in await children(person, principal) if state.asks)


async def ended(person: Person, sid: str) -> SessionState:
    """Wait until a background session has ended and was heard."""

    async def over() -> bool:
        state = await person.app.store.sessions.state(sid)
        return state is not None and state.ended_at > 0 and not state.undelivered

    await eventually(over)
    state = await person.app.store.sessions.state(sid)
    assert state is not None
    return state


async def pending(person: Person, sid: str) -> str:
    """Return the id of the one question that a session asks."""
    (asked,) = [one for one in await person.app.store.approvals.of(sid) if one.state is ApprovalState.PENDING]
    return asked.id


async def test_a_task_delegates_twice_after_reading_a_page(tmp_path: Path) -> None:
    async with web() as server:
        for path in ("/a", "/b", "/c"):
            server.page(path, f"the page {path}")
        address = f"127.0.0.1:{server.port}"
        config = json.dumps({"web": {"unsafe_allow_private_addresses": [address]}})
        async with running(tmp_path, config) as owner:
            await owner.say(f"please compare http://{address}/b and http://{address}/c")
            await owner.say(bang("web_fetch", url=f"http://{address}/a"))
            assert str((await owner.state()).taint) == "PUBLIC~"
            for path in ("/b", "/c"):
                # As a model would that has read the page: what it writes is no person's word.
                await owner.send(spawn(bang("web_fetch", url=f"http://{address}{path}")), authored=False)
                await owner.settled()
            for child in await children(owner):
                log = await owner.app.store.sessions.events((await ended(owner, child.sid)).sid)
                assert results(log) == [("web_fetch", "ok")]
            assert sorted(server.paths) == ["/a", "/b", "/c"]
            assert await owner.app.store.approvals.waiting() == ()


async def test_an_address_that_no_person_typed_is_asked_about(tmp_path: Path) -> None:
    async with web() as server:
        server.page("/a", "the page")
        address = f"127.0.0.1:{server.port}"
        config = json.dumps({"web": {"unsafe_allow_private_addresses": [address]}})
        async with running(tmp_path, config) as owner:
            await owner.say(f"please look at http://{address}/a")
            await owner.say(READS)
            await owner.send(spawn(bang("web_fetch", url=f"http://{address}/a?who=ann")), authored=False)
            child = await asking(owner)
            assert server.paths == []
            await owner.say(f"/deny {await pending(owner, child.sid)}")
            await ended(owner, child.sid)
            assert server.paths == []


async def test_it_asks_its_person_alone_and_goes_on_when_they_approve(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(spawn(f"{READS}\n{note('guest', 'hi')}"))
        child = await asking(owner)
        asked = await pending(owner, child.sid)
        assert "May `message` run with exactly these arguments?" in owner.shown
        assert f"Background session {child.lineage.run if child.lineage else ''} asks you alone" in owner.shown
        assert f"Approve: `/approve {asked}`" in owner.shown
        assert "waits for a person" in await owner.say("/agents")
        assert f"asked in session {child.sid}" in await owner.say("/approvals")
        # It is no question of the conversation's own: nothing but its id answers it.
        await owner.say("yes")
        assert (await owner.app.store.approvals.of(child.sid))[0].state is ApprovalState.PENDING
        assert (await owner.state()).status is Status.IDLE
        await owner.say(f"/approve {asked}")
        await ended(owner, child.sid)
        assert "→ guest: hi" in owner.shown
        log = await owner.app.store.sessions.events(child.sid)
        assert results(log) == [("read_file", "ok"), ("message", "ok")]


async def test_nothing_of_its_asking_reaches_its_parent(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        write = bang("write_file", path="confidential/x.md", text="hi")
        await owner.say(spawn(f"{SECRET}\n{note('guest', 'hi')}\n{write}"))
        child = await asking(owner)
        before = await owner.events()
        assert str(child.taint) == "CONFIDENTIAL~"
        # The console's own chat is private and cleared for it: its person hears it there, and the conversation nothing.
        assert "It may hold data labelled CONFIDENTIAL~." in owner.shown
        await owner.say(f"/deny {await pending(owner, child.sid)}")
        await owner.say(bang("sessions_list"))
        # Its person may be told beside the conversation that something of it is held.
        assert child.sid not in "".join(
            str(event.body)
            for event in await owner.events()
            if isinstance(event.body, ToolResult) and event.body.tool == "sessions_list"
        )
        kinds = [event.type for event in (await owner.events())[len(before) :]]
        assert EventType.APPROVAL_REQUESTED not in kinds
        assert EventType.APPROVAL_RESOLVED not in kinds


async def test_where_no_private_chat_is_cleared_nobody_is_asked_and_it_says_what_to_do(tmp_path: Path) -> None:
    people = {"boss": principal("console:owner", clearance="INTERNAL")}
    channels = {"console": {"classification": "PUBLIC", "overshoot": "allow"}}
    probe = Probe(declared=CallFacts(consequential=True))
    config = policy(principals=people, channels=channels, recipients={})
    async with running(tmp_path, config, parts=parts(probe)) as owner:
        await owner.say(spawn(f"{bang('read_file', path='internal/handbook.md')}\n{bang('probe')}"))
        (child,) = await children(owner, "boss")
        await ended(owner, child.sid)
        log = await owner.app.store.sessions.events(child.sid)
        assert ("probe", "denied") in results(log)
        assert any(NOBODY_ALONE in str(event.body) for event in log)
        assert await owner.app.store.approvals.of(child.sid) == ()
        assert probe.ran == []


async def test_a_rule_that_needs_somebody_else_is_not_asked_about_there(tmp_path: Path) -> None:
    rule = {"id": "four-eyes", "hook": "PRE_TOOL_CALL", "tools": ["message"], "action": "REQUIRE_APPROVAL"}
    rule |= {"approvers": ["approver"]}
    async with running(tmp_path, policy(rules=[rule])) as owner:
        await owner.say(spawn(note("guest", "hi")))
        (child,) = await children(owner)
        await ended(owner, child.sid)
        log = await owner.app.store.sessions.events(child.sid)
        assert results(log) == [("message", "denied")]
        assert any(NOBODY_ALONE in str(event.body) for event in log)


async def test_an_approver_who_did_not_set_it_going_may_not_answer(tmp_path: Path) -> None:
    people = {
        "boss": principal("console:owner", clearance="RESTRICTED"),
        "ann": principal("console:ann", role="approver", clearance="RESTRICTED"),
        "mel": principal("console:guest", role="member", clearance="PUBLIC"),
    }
    async with running(tmp_path, policy(principals=people)) as owner:
        await owner.say(spawn(f"{READS}\n{note('guest', 'hi')}"))
        child = await asking(owner, "boss")
        ann = Person(owner.app, owner.output, Address("console", "ann"), "console:ann")
        asked = await pending(owner, child.sid)
        unknown = await ann.say("/approve nothing")
        assert await ann.say(f"/approve {asked}") == unknown
        assert "Nothing waits for an answer." in await ann.say("/approvals")
        await owner.say(f"/approve {asked}")
        await ended(owner, child.sid)
        assert "→ guest: hi" in owner.shown


async def test_its_question_expires_at_its_deadline_and_it_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(spawn(f"{READS}\n{note('guest', 'hi')}", limits={"minutes": 1}))
        child = await asking(owner)
        (asked,) = await owner.app.store.approvals.of(child.sid)
        assert child.lineage is not None
        assert asked.expires_at == child.lineage.deadline
        await end_by(owner.app.store, child.sid, 1)
        await alter(owner.app.store, APPROVAL, keys(child.sid).approvals, asked.id, expires=1)
        over = await ended(owner, child.sid)
        assert over.last_turn is not None
        assert over.last_turn.reason is YieldReason.DEADLINE_EXCEEDED
        assert "→ guest" not in owner.shown


async def test_one_that_rests_ends_at_its_deadline_all_the_same(tmp_path: Path) -> None:
    """Its parent waits for it, and nobody may ever let it go on."""
    async with running(tmp_path) as owner:
        await owner.say(spawn(f"{READS}\n{note('guest', 'hi')}", limits={"minutes": 1}))
        child = await asking(owner)
        await owner.say(f"/pause {child.sid}", wait=False)
        (asked,) = await owner.app.store.approvals.of(child.sid)
        await owner.say(f"/approve {asked.id}", wait=False)
        await asyncio.sleep(0.5)
        assert (await owner.app.store.sessions.state(child.sid) or child).turn is not None
        assert TOO_LATE not in owner.shown
        await end_by(owner.app.store, child.sid, 1)

        async def over() -> bool:
            state = await owner.app.store.sessions.state(child.sid)
            return state is not None and state.turn is None

        await eventually(over)
        state = await owner.app.store.sessions.state(child.sid)
        assert state is not None
        assert state.last_turn is not None
        assert (state.last_turn.reason, state.rests) == (YieldReason.DEADLINE_EXCEEDED, True)
        assert "→ guest" not in owner.shown
        await eventually(lambda: _told(owner))


async def _told(owner: Person) -> bool:
    return TOO_LATE in owner.shown


@pytest.mark.parametrize("line", ["/stop", "/agents cancel {run}", "/reset confirm"])
async def test_stopping_it_cancels_its_question(tmp_path: Path, line: str) -> None:
    async with running(tmp_path) as owner:
        await owner.say(spawn(f"{READS}\n{note('guest', 'hi')}"))
        child = await asking(owner)
        asked = await pending(owner, child.sid)
        assert child.lineage is not None
        await owner.say(line.format(run=child.lineage.run))
        await ended(owner, child.sid)
        assert "goes on" not in await owner.say(f"/approve {asked}")
        assert "→ guest" not in owner.shown
        assert "Nothing waits for an answer." in await owner.say("/approvals")


async def test_what_a_shared_chat_set_going_asks_whoever_did_in_private(tmp_path: Path) -> None:
    rooms, probe = team("ann", "mel"), Probe(declared=CallFacts(consequential=True))
    async with talking(tmp_path, rooms, parts=parts(probe)) as people:
        person, alone = Person(people.app, io.StringIO()), Address("room", "ann")
        await people.say("ann", spawn(f"{READS}\n{bang('probe')}"))
        child = await asking(person, f"chat:{TEAM.place}")
        asked = await pending(person, child.sid)
        await eventually(lambda: _heard(rooms, alone, "May `probe` run"))
        assert not any("May `probe` run" in text for text in rooms.heard(TEAM))
        await people.say("mel", f"/approve {asked}", Address("room", "mel"))
        assert probe.ran == []
        await people.say("ann", f"/approve {asked}", alone)
        await ended(person, child.sid)
        assert len(probe.ran) == 1


async def _heard(rooms: Rooms, address: Address, text: str) -> bool:
    return any(text in said for said in rooms.heard(address))
