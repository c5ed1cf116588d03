"""Background sessions through the whole application: labels, results, caps, deadlines, stops, crashes."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from pydantic import JsonValue

from bot.commands.conversation import STOPPED
from bot.core.errors import BusyError, NotFoundError
from bot.delegation.spawn import DepthError, HopsError
from bot.delegation.structured_result import FAILED
from bot.sessions.background.delegation import Arrival, Caps, Errand, NewSlot, Parcel, Slot
from bot.sessions.deliveries import RISEN, NewDelivery
from bot.sessions.inbox import NewItem
from bot.sessions.log.event_types import AgentMessage, YieldReason
from bot.sessions.log.events import EventType
from bot.sessions.messages import SessionMessage
from bot.sessions.models import SessionState, Status, Turn, Write
from bot.tools.base import CallFacts, Result, ToolContext, ToolServices
from bot.tools.sending import FIELDS_ONLY
from bot.worker.turn_runner import TOO_LATE
from channels.messages import Address
from policy.labels import PUBLIC
from tests.bot.kit import (
    CONFIDENTIAL,
    Probe,
    bang,
    eventually,
    parts,
    policy,
    standing,
)
from tests.bot.rooms import talking, team
from tests.harness import HOME, Person, running
from tests.store.world import end_by, taken_slot

pytestmark = pytest.mark.anyio

READS = bang("read_file", path="confidential/pipeline.md")


def spawn(task: str, **more: object) -> str:
    return bang("sessions_spawn", task=task, **more)  # pyright: ignore[reportArgumentType] - what a model may say


async def slots(person: Person) -> tuple[Slot, ...]:
    return await person.app.store.delegation.slots("owner")


async def children(person: Person) -> list[SessionState]:
    found = [await person.app.store.sessions.state(slot.sid) for slot in await slots(person)]
    return [state for state in found if state is not None]


async def quiet(person: Person) -> list[SessionState]:
    """Wait until every background session has ended and been heard, and return them."""

    async def over() -> bool:
        spawned = await children(person)
        return all(state.ended_at for state in spawned) and all(
            not state.undelivered and not state.waiting_items and state.turn is None
            for state in (*spawned, await person.state())
        )

    await eventually(over)
    return await children(person)


async def arrivals(person: Person, sid: str) -> list[Arrival]:
    """Return what became of all that a session sent other sessions."""
    return [one.arrival for one in await person.app.store.outbox.deliveries(sid) if one.arrival is not None]


async def test_its_result_comes_back_as_a_message(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        shown = await owner.say(spawn("look around", title="research"))
        assert '"status": "accepted"' in shown
        (child,) = await quiet(owner)
        assert f"[result of background session {child.sid}, not your user]" in owner.shown
        assert "You said: look around" in owner.shown
        assert child.lineage is not None
        assert (child.lineage.title, child.lineage.depth, child.principal) == ("research", 1, "owner")
        told = json.loads(shown.partition("sessions_spawn: ")[2].splitlines()[0])
        assert (told["run_id"], told["session_id"]) == (child.lineage.run, child.sid)
        assert (await owner.state()).taint == PUBLIC


async def test_a_task_carries_what_its_parent_has_read_before_the_model_is_asked(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(READS)
        await owner.say(spawn("hello"))
        (child,) = await quiet(owner)
        log = await owner.app.store.sessions.events(child.sid)
        kinds = [event.type for event in log]
        assert kinds[:4] == ["session.created", "turn.started", "taint.raised", "user.message"]
        assert [str(event.label) for event in log[2:4]] == ["CONFIDENTIAL~", "CONFIDENTIAL~"]
        assert kinds.index("user.message") < kinds.index("agent.message")
        assert CONFIDENTIAL.flows_to(child.taint)
        assert CONFIDENTIAL.flows_to(child.creation)


async def test_a_result_above_its_parent_is_held_and_a_constant_comes_instead(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(spawn(READS))
        (child,) = await quiet(owner)
        assert str(child.taint) == "CONFIDENTIAL~"
        assert str((await owner.state()).taint) == "PUBLIC"
        assert f"[notice about background session {child.sid}, not your user]\n  {RISEN}" in owner.shown
        assert "pipeline" not in owner.shown.replace("confidential/pipeline.md", "").lower()
        (held,) = await owner.app.store.delegation.held(owner.sid)
        assert (str(held.label), held.sender) == ("CONFIDENTIAL~", "owner")


async def test_how_it_failed_is_held_like_what_it_found(tmp_path: Path) -> None:
    async with running(tmp_path, policy(blocks={"limits": {"model_steps": 1}})) as owner:
        await owner.say(spawn(READS))
        (child,) = await quiet(owner)
        assert child.last_turn is not None
        assert child.last_turn.reason is YieldReason.BUDGET_EXCEEDED
        assert RISEN in owner.shown
        assert [str(held.label) for held in await owner.app.store.delegation.held(owner.sid)] == ["CONFIDENTIAL~"]


async def test_a_result_is_held_where_no_more_that_is_sent_is(tmp_path: Path) -> None:
    sends = bang("sessions_send", session_id="parent", content="x")
    async with running(tmp_path) as owner:
        await owner.say("hello")
        for n in range(50):
            sent = Parcel(owner.sid, 1, f"p{n}", "owner", CONFIDENTIAL, SessionMessage("x"))
            assert await owner.app.store.delegation.receive(sent) is Arrival.HELD
        before = await owner.state()
        await owner.say(spawn(f"{READS}\n{sends}"))
        (child,) = await quiet(owner)
        assert await arrivals(owner, child.sid) == [Arrival.WAITING, Arrival.FULL, Arrival.HELD]
        result = (await owner.app.store.delegation.held(owner.sid))[-1]
        assert "Veldhaven" in result.body.text
        after = await owner.state()
        assert (after.taint, after.waiting_items) == (before.taint, 0)
        assert str(RISEN) in owner.shown


async def test_the_parent_hears_of_a_rise_before_what_raises_it_is_read(tmp_path: Path) -> None:
    seen = list[bool]()

    async def look(_arguments: object, context: ToolContext, _services: ToolServices) -> Result:
        state = await people[0].app.store.sessions.state(context.session.sid)
        assert state is not None
        assert state.lineage is not None
        parent = await people[0].app.store.sessions.outcome(
            people[0].sid, f"session/{context.session.sid}/1/{state.lineage.run}-risen"
        )
        seen.append(parent is not None)
        return Result("secret", CONFIDENTIAL, failed=True)

    people = list[Person]()
    probe = Probe(label=CONFIDENTIAL, declared=CallFacts(result=CONFIDENTIAL), does=look)
    async with running(tmp_path, parts=parts(probe)) as owner:
        people.append(owner)
        await owner.say(spawn(f"{bang('probe')}\n{bang('probe')}"))
        await quiet(owner)
        assert seen == [True, True]
        # It was told of also though what it read failed.
        assert owner.shown.count(RISEN) == 1


async def test_what_a_task_says_as_it_rises_is_said_although_a_stop_comes_with_it(tmp_path: Path) -> None:
    async def stops(_arguments: object, context: ToolContext, _services: ToolServices) -> Result:
        await people[0].app.store.sessions.stop(context.session.sid, actor="owner")
        told = NewDelivery(f"{context.session.turn}-note", str(HOME), "a note", CONFIDENTIAL, turn=context.session.turn)
        return Result("secret", CONFIDENTIAL, deliver=(told,))

    async def noted() -> bool:
        return "a note" in people[0].shown

    people = list[Person]()
    async with running(tmp_path, parts=parts(Probe(does=stops))) as owner:
        people.append(owner)
        await owner.say(spawn(bang("probe")))
        # Half of the time for which what was claimed counts as being said.
        async with asyncio.timeout(15):
            (child,) = await quiet(owner)
            await eventually(noted)
        assert child.last_turn is not None
        assert child.last_turn.reason is YieldReason.CANCELED
        assert owner.shown.count("a note") == 1


async def test_one_whose_task_a_rule_keeps_out_is_silent_all_the_same(tmp_path: Path) -> None:
    """That it rose by why it exists alone, and read nothing, is nothing its parent could tell."""
    rules = [{"id": "no-deals", "hook": "PRE_CONTEXT_INJECTION", "pattern": "deal", "action": "BLOCK"}]
    async with running(tmp_path, policy(rules=rules, patterns={"deal": "Veldhaven"})) as owner:
        notice = await owner.say(bang("read_file", path="confidential/pipeline.md", _hold=True))
        (ref,) = set(re.findall(r"held-[a-z0-9]{16}", notice))
        await owner.say(bang("sessions_spawn", task={"$ref": ref}))
        (child,) = await quiet(owner)
        assert child.taint == PUBLIC
        assert child.risen
        assert owner.shown.count(RISEN) == 0
        # What else is put to it is answered at what it is known for, not at what it has read.
        sent = Parcel(
            child.sid,
            1,
            "p",
            "owner",
            PUBLIC,
            SessionMessage(bang("sessions_send", session_id="parent", content="x")),
            report=True,
        )
        await owner.app.store.delegation.receive(sent)
        await quiet(owner)
        assert await arrivals(owner, child.sid) == [Arrival.HELD, Arrival.HELD, Arrival.HELD]


async def test_a_result_that_waits_in_one_that_ended_sets_it_going_when_a_person_lets_it_in(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(spawn(spawn(READS)))

        async def middle() -> SessionState:
            found = [state for state in await children(owner) if state.lineage and state.lineage.depth == 1]
            return found[0]

        async def both() -> bool:
            state = await middle()
            return bool(state.ended_at and await owner.app.store.delegation.held(state.sid)) and not state.undelivered

        await eventually(both)
        between = await middle()
        assert between.taint == PUBLIC
        (held,) = await owner.app.store.delegation.held(between.sid)
        before = owner.shown.count(f"session {between.sid}")
        await owner.say(f"/held accept {held.id}", wait=False)

        async def read() -> bool:
            state = await middle()
            return str(state.taint) == "CONFIDENTIAL~" and state.ended_at > 0 and not state.undelivered

        await eventually(read)
        await quiet(owner)
        # One notice more, and what it makes of it is held.
        assert f"[notice about background session {between.sid}" in owner.shown
        assert len(await owner.app.store.delegation.held(owner.sid)) == 1
        assert before


async def test_its_workspace_is_its_own(tmp_path: Path) -> None:
    writes = bang("write_file", path="workspace/notes.md", text="mine")
    async with running(tmp_path) as owner:
        await owner.say(spawn(writes))
        await quiet(owner)
        shown = await owner.say(bang("read_file", path="workspace/notes.md"))
        assert "mine" not in shown


async def test_its_result_is_told_to_whom_it_was_promised_if_they_may_know(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(spawn("look", deliver_to="guest"))
        await owner.say(spawn(READS, deliver_to="guest"))
        low, high = sorted(await quiet(owner), key=lambda state: str(state.taint), reverse=True)
        assert str(high.taint) == "CONFIDENTIAL~"
        assert owner.shown.count("→ guest: ") == 1
        assert "→ guest: You said: look" in owner.shown
        rows = [record.body for record in await owner.app.store.audit.records(high.sid)]
        assert [row["verdict"] for row in rows if row.get("destination") == "console::guest:"] == ["BLOCK"]
        assert low.taint == PUBLIC


async def test_an_untrusted_session_asks_before_its_child_may_tell_others(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        shown = await owner.say(spawn("look", deliver_to="guest"))
        assert "May `sessions_spawn` run" in shown
        shown = await owner.say("/stop")
        assert await slots(owner) == ()
        assert "unknown recipient" in await owner.say(spawn("look", deliver_to="gest"))


async def begun(owner: Person, *addresses: str) -> list[str]:
    """Begin a conversation at each address and return their sessions."""
    sids = list[str]()
    for chat in addresses:
        person = Person(owner.app, owner.output, Address("console", chat))
        await person.send("hello")
        sids.append(person.sid)
    return sids


@pytest.mark.parametrize("chats, live", [(["owner"], 5), (["owner", "desk"], 8)])
async def test_of_two_hundred_at_once_exactly_the_caps_live(tmp_path: Path, chats: list[str], live: int) -> None:
    async with running(tmp_path, serve=False) as owner:
        sids = await begun(owner, *chats)

        async def one(number: int) -> str:
            parent = standing(sid=sids[number % len(sids)], turn="")
            try:
                return (await owner.app.spawner.mint_child(parent, f"k{number}", Errand("hello"))).sid
            except BusyError as error:
                return str(error)

        async with asyncio.TaskGroup() as tasks:
            tried = [tasks.create_task(one(number)) for number in range(200)]
        answers = {task.result() for task in tried}
        assert len(await children(owner)) == live
        assert len(answers) == live + 1
        assert "busy, try again in a moment" in answers


async def test_slots_that_a_crash_left_are_found_when_one_is_wanted(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        (sid,) = await begun(owner, "owner")
        app = owner.app
        for number in range(5):
            await app.spawner.mint_child(standing(sid=sid, turn=""), f"k{number}", Errand("hello"))
        with pytest.raises(BusyError):
            await app.spawner.mint_child(standing(sid=sid, turn=""), "more", Errand("hello"))
        # The process died after this one's end, before its slot was freed.
        await app.store.sessions.stop((await slots(owner))[0].sid, actor="owner")
        await app.spawner.mint_child(standing(sid=sid, turn=""), "more", Errand("hello"))
        # And here between the reservation and the creation.
        await app.store.sessions.stop((await slots(owner))[1].sid, actor="owner")
        await app.spawner.free("owner")
        await app.store.delegation.reserve("owner", NewSlot("lost", "nowhere", sid, PUBLIC, 60_000), Caps(5, 8, 2))
        with pytest.raises(BusyError):
            await app.spawner.mint_child(standing(sid=sid, turn=""), "again", Errand("hello"))
        await taken_slot(app.store, "owner", "lost", sid, lapses=1, session="nowhere")
        await app.spawner.mint_child(standing(sid=sid, turn=""), "again", Errand("hello"))
        assert sum(slot.live for slot in await slots(owner)) == 5


async def test_the_same_call_again_is_the_same_child(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        (sid,) = await begun(owner, "owner")
        parent = standing(sid=sid, turn="")
        first = await owner.app.spawner.mint_child(parent, "k", Errand("hello"))
        assert await owner.app.spawner.mint_child(parent, "k", Errand("hello")) == first
        (child,) = await children(owner)
        assert child.waiting_items == 1


async def test_a_parent_that_was_reset_or_is_gone_spawns_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        (sid,) = await begun(owner, "owner")
        for parent in (standing(sid=sid, turn="", generation=2), standing(sid="nowhere", turn="")):
            with pytest.raises(NotFoundError):
                await owner.app.spawner.mint_child(parent, "k", Errand("hello"))
        assert await slots(owner) == ()


async def test_children_of_children_and_no_deeper(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(spawn(spawn(spawn("too deep"))))
        found = await quiet(owner)
        assert sorted(state.lineage.depth for state in found if state.lineage) == [1, 2]
        deepest = max(found, key=lambda state: state.lineage.depth if state.lineage else 0)
        log = await owner.app.store.sessions.events(deepest.sid)
        assert any(str(DepthError()) in str(event.body) for event in log)


async def test_one_that_waits_holds_no_slot_and_hears_its_children_all_the_same(tmp_path: Path) -> None:
    let_go = asyncio.Event()

    async def wait(_arguments: object, _context: object, _services: object) -> None:
        await let_go.wait()

    async with running(tmp_path, parts=parts(Probe(does=wait))) as owner:
        await owner.say(spawn(spawn(bang("probe"))))

        async def waits() -> bool:
            return sorted(slot.live for slot in await slots(owner)) == [False, True]

        await eventually(waits)
        let_go.set()
        found = await quiet(owner)
        (middle,) = [state for state in found if state.lineage and state.lineage.depth == 1]
        log = await owner.app.store.sessions.events(middle.sid)
        said = [event.body.text for event in log if isinstance(event.body, AgentMessage)]
        assert len(said) == 2
        assert "probe: done" in str(said[1])
        assert owner.shown.count(f"You said: [result of background session {middle.sid}") == 2


async def test_what_came_through_too_many_sessions_spawns_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        (sid,) = await begun(owner, "owner")
        claim = await owner.app.store.sessions.claim(sid, "w")
        assert claim is not None
        turn = Turn("t", 1, claim.items[0].dedupe, "owner", claim.now, hops=5)
        opened = Write(owner.app.ids.op(), claim.state.seq, take=1, turn=turn, status=Status.RUNNING)
        await owner.app.store.sessions.record(claim, opened)
        with pytest.raises(HopsError):
            await owner.app.spawner.mint_child(standing(sid=sid), "k", Errand("hello"))
        # A person who types it is no loop.
        await owner.app.spawner.mint_child(standing(sid=sid, turn=""), "k", Errand("hello"))


async def late(owner: Person, sid: str, deadline: int) -> None:
    """Change a background session's deadline."""
    await end_by(owner.app.store, sid, deadline)


async def test_its_deadline_is_on_the_stores_clock(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        (sid,) = await begun(owner, "owner")
        app = owner.app
        child = await app.spawner.mint_child(standing(sid=sid, turn=""), "k", Errand("hello", minutes=3))
        state = await app.store.sessions.state(child.sid)
        assert state is not None
        assert state.lineage is not None
        assert 0 < state.lineage.deadline - state.created_at <= 3 * 60_000
        await late(owner, child.sid, 1)
        serving = asyncio.create_task(app.serve())
        try:
            (ended,) = await quiet(owner)
        finally:
            serving.cancel()
        assert ended.last_turn is not None
        assert ended.last_turn.reason is YieldReason.DEADLINE_EXCEEDED
        assert TOO_LATE in owner.shown
        # It was over before it began: nothing of its task was let in.
        begun_with = [
            event for event in await app.store.sessions.events(child.sid) if event.type is EventType.USER_MESSAGE
        ]
        assert begun_with == []


async def test_a_childs_child_has_no_later_deadline(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        (sid,) = await begun(owner, "owner")
        app = owner.app
        child = await app.spawner.mint_child(standing(sid=sid, turn=""), "k", Errand("hello"))
        state = await app.store.sessions.state(child.sid)
        assert state is not None
        soon = state.created_at + 60_000
        await late(owner, child.sid, soon)
        grandchild = await app.spawner.mint_child(standing(sid=child.sid, turn=""), "l", Errand("hello", minutes=5))
        below = await app.store.sessions.state(grandchild.sid)
        assert below is not None
        assert below.lineage is not None
        assert below.lineage.deadline == soon


async def test_a_deadline_ends_a_turn_in_its_middle(tmp_path: Path) -> None:
    async def wait(_arguments: object, _context: object, _services: object) -> None:
        await asyncio.Event().wait()

    probe = Probe(does=wait)
    async with running(tmp_path, parts=parts(probe), serve=False) as owner:
        (sid,) = await begun(owner, "owner")
        app = owner.app
        child = await app.spawner.mint_child(standing(sid=sid, turn=""), "k", Errand(bang("probe")))
        state = await app.store.sessions.state(child.sid)
        assert state is not None
        await late(owner, child.sid, state.created_at + 3_000)
        serving = asyncio.create_task(app.serve())
        try:
            (ended,) = await quiet(owner)
        finally:
            serving.cancel()
        assert len(probe.ran) == 1
        assert ended.last_turn is not None
        assert ended.last_turn.reason is YieldReason.DEADLINE_EXCEEDED


async def test_a_stop_reaches_all_that_was_spawned_and_sets_nothing_going(tmp_path: Path) -> None:
    async def wait(_arguments: object, _context: object, _services: object) -> None:
        await asyncio.Event().wait()

    probe = Probe(does=wait)
    async with running(tmp_path, parts=parts(probe)) as owner:
        await owner.say(spawn(f"{spawn(bang('probe'))}\n{bang('probe')}"))

        async def both() -> bool:
            return len(probe.ran) == 2

        await eventually(both)
        before = len(await owner.events())
        shown = await owner.say("/stop")
        assert "its background sessions are stopped" in shown
        found = await quiet(owner)
        assert [state.last_turn.reason for state in found if state.last_turn] == [YieldReason.CANCELED] * 2
        assert len(await owner.events()) == before


async def test_a_stop_in_a_shared_chat_reaches_what_the_chat_spawned(tmp_path: Path) -> None:
    async def wait(_arguments: object, _context: object, _services: object) -> None:
        await asyncio.Event().wait()

    probe, rooms = Probe(does=wait), team("ann", "mel")
    async with talking(tmp_path, rooms, parts=parts(probe)) as people:
        receipt = await people.say("ann", spawn(bang("probe")))
        principal = "chat:room::team:"

        async def runs() -> bool:
            return bool(probe.ran)

        await eventually(runs)
        assert len(await people.app.spawner.below(principal, receipt.sid)) == 1
        await people.say("ann", "/stop")

        async def over() -> bool:
            return not await people.app.spawner.below(principal, receipt.sid)

        await eventually(over)


async def test_a_stop_tells_nothing_of_a_session_above_those_who_read_there(tmp_path: Path) -> None:
    """What runs there, and what waits there that they may not know of."""
    low = {"desk": {"channel": "console", "chat": "owner", "clearance": "PUBLIC"}}
    async with running(tmp_path, policy(recipients=low), serve=False) as owner:
        for raised, waits, told in (
            (False, False, "Nothing was running, 1 waiting message cancelled."),
            (True, False, STOPPED),
            (True, True, STOPPED),
        ):
            await owner.send("hello")
            if raised:
                await owner.say("/taint raise CONFIDENTIAL", wait=False)
            if waits:
                item = NewItem(owner.sid, "d", "owner", CONFIDENTIAL, SessionMessage("x"), str(owner.address), "owner")
                await owner.app.store.sessions.accept(item)
            assert told in await owner.say("/stop", wait=False)


async def test_a_result_for_a_conversation_begun_anew_is_dropped(tmp_path: Path) -> None:
    let_go = asyncio.Event()

    async def wait(_arguments: object, _context: object, _services: object) -> None:
        await let_go.wait()

    async with running(tmp_path, parts=parts(Probe(does=wait))) as owner:
        await owner.say(spawn(bang("probe")))
        await owner.say("/reset confirm")
        let_go.set()
        await quiet(owner)
        assert "result of background session" not in owner.shown
        assert await owner.app.store.delegation.held(owner.sid) == ()


async def test_a_person_spawns_at_the_label_of_what_he_types(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        assert "has not begun" in await owner.say("/spawn look around")
        await owner.say(READS)
        shown = await owner.say("/spawn look around")
        (child,) = await quiet(owner)
        (slot,) = await owner.app.store.delegation.slots("owner")
        assert f"{slot.run} works on it in the background" in shown
        assert child.taint == PUBLIC
        assert "Write it as `/spawn TASK`" in await owner.say("/spawn")
        audited = [record.body for record in await owner.app.store.audit.records("audit")]
        assert [row["verdict"] for row in audited if row.get("tool") == "sessions_spawn"] == ["ALLOW", "ALLOW"]


async def test_a_rule_stops_a_persons_spawn_too(tmp_path: Path) -> None:
    rules = [{"id": "no-children", "hook": "PRE_TOOL_CALL", "tools": ["sessions_spawn"], "action": "BLOCK"}]
    async with running(tmp_path, policy(rules=rules)) as owner:
        await owner.say("hello")
        assert "no-children" in await owner.say("/spawn look around")
        assert "no-children" in await owner.say(spawn("look around"))
        assert await slots(owner) == ()


async def test_agents_lists_stops_and_shows(tmp_path: Path) -> None:
    async def wait(_arguments: object, _context: object, _services: object) -> None:
        await asyncio.Event().wait()

    async with running(tmp_path, parts=parts(Probe(does=wait))) as owner:
        assert "There are no background sessions here." in await owner.say("/agents")
        await owner.say(spawn(bang("probe"), title="slow one"))
        (slot,) = await slots(owner)

        async def works() -> bool:
            return "running" in await owner.say("/agents")

        await eventually(works)
        assert f"{slot.run} running, taint PUBLIC: slow one" in await owner.say("/agents list")
        assert f"Stopping {slot.run}" in await owner.say(f"/agents cancel {slot.run}")
        await quiet(owner)
        assert "ended, canceled" in await owner.say("/agents")
        assert "!probe" in await owner.say(f"/agents log {slot.sid}")
        assert "There is nothing of that name here" in await owner.say("/agents log nowhere")
        assert "Write it as" in await owner.say("/agents cancel")


async def test_what_may_not_be_known_here_is_not_among_the_agents(tmp_path: Path) -> None:
    channels = {"console": {"classification": "INTERNAL", "inbound": "PUBLIC", "overshoot": "allow"}}
    recipients = {"owner": {"channel": "console", "chat": "owner", "clearance": "INTERNAL"}}
    async with running(tmp_path, policy(channels=channels, recipients=recipients)) as owner:
        before = await owner.say("/agents")
        await owner.say(spawn(READS))
        (slot,) = await slots(owner)
        await quiet(owner)
        assert await owner.say("/agents") == before
        absent = await owner.say("/agents log nowhere")
        assert await owner.say(f"/agents log {slot.run}") == absent
        assert await owner.say(f"/agents cancel {slot.run}") == absent


@pytest.mark.parametrize(
    "returns",
    [
        {},
        {"note": {"type": "text"}},
        {"note": {"type": "string"}},
        {"note": {"type": "enum"}},
        {"note": {"type": "enum", "values": []}},
        {"note": {"type": "enum", "values": [""]}},
        {"note": {"type": "enum", "values": ["x" * 65]}},
        {"note": {"type": "enum", "values": [f"m{number}" for number in range(33)]}},
        {"note": {"type": "number"}},
        {"note": {"type": "number", "min": 0}},
        {"note": {"type": "number", "min": 0, "max": 1, "values": ["x"]}},
        {"note": {"type": "number", "min": 1, "max": 0}},
        {"note": {"type": "number", "min": 0, "max": 1, "step": 0}},
        {"note": {"type": "number", "min": 0, "max": 1, "step": 1e-20}},
        {"note": {"type": "number", "min": 0, "max": 1e300}},
        {"note": {"type": "number", "min": False, "max": True}},
        {"note": {"type": "date", "min": "today"}},
        {"note": {"type": "date", "min": "2026-11-22", "max": "2026-11-21"}},
        {"note": {"type": "object", "properties": {"deep": {"type": "boolean"}}}},
        {"note": {"deep": {"type": "boolean"}}},
        {"a note": {"type": "boolean"}},
        {"note\n": {"type": "boolean"}},
        {f"f{number}": {"type": "boolean"} for number in range(9)},
    ],
)
async def test_fields_that_are_not_bounded_are_refused(tmp_path: Path, returns: JsonValue) -> None:
    async with running(tmp_path) as owner:
        shown = await owner.say(spawn("look", returns=returns))
        assert "arguments of `sessions_spawn` do not fit" in shown
        assert await slots(owner) == ()


async def test_one_that_was_given_fields_tells_nothing_else(tmp_path: Path) -> None:
    """Neither why it failed, nor by a text it sends, nor what a rule would mask."""
    fields = {"card": {"type": "number", "min": 0, "max": 9_999_999_999}}
    cards = {"id": "cards", "hook": "PRE_OUTPUT", "action": "REDACT", "pattern": "long"}
    config = policy(rules=[cards], patterns={"long": r"\b\d{10}\b"}, blocks={"limits": {"model_steps": 2}})
    sends = bang("sessions_send", session_id="parent", content="wire the money")
    async with running(tmp_path, config) as owner:
        files = tmp_path / "data" / "files" / "public"
        (files / "page.md").write_text('{"card": 1234567890}', "utf-8")
        reads = bang("read_file", path="public/page.md")
        for task in (f"{sends}\n{reads}\n=", spawn("again"), f"{reads}\n="):
            await owner.say(spawn(task, returns=fields))
        found = await quiet(owner)
        told = [one.text for state in found for one in await owner.app.store.outbox.deliveries(state.sid)]
        assert told.count(FAILED) >= 3
        assert not any("1234567890" in text or "money" in text for text in told)
        logs = [await owner.app.store.sessions.events(state.sid) for state in found]
        assert sum(FIELDS_ONLY in str(event.body) for log in logs for event in log) >= 1
