"""Commands about a conversation as a whole: resting, archived, deleted, and the chat that goes on after it."""

import asyncio
import os
import re
from pathlib import Path

import pytest
from anyio import CancelScope

from bot.commands.lifecycle import BLIND
from bot.operations.lifecycle import WORKSPACE_LEFT
from bot.sessions.log.event_types import YieldReason
from bot.sessions.models import Doing, SessionState, Status
from bot.store.lifecycle import NOT_WRITTEN
from bot.store.records.kinds import SLOT
from bot.store.schema import session_keys, slots_key
from channels.messages import Address, Inbound
from policy.labels import parse
from tests.bot.kit import Probe, bang, eventually, parts, policy
from tests.harness import Person, running
from tests.people import principal
from tests.store.world import alter, command

pytestmark = pytest.mark.anyio

WORD = "swordfish"


async def now(person: Person) -> str:
    """Return the id of the session in which a person speaks now."""
    return await person.app.session_ids.of(person.address, "owner")


async def spoken(person: Person, text: str) -> str:
    """Say something, wait for the answer wherever the chat goes on, and return what was shown."""
    before = len(person.shown)
    sid = (await person.send(text)).sid

    async def still() -> bool:
        state = await person.app.store.sessions.state(sid)
        return state is None or (state.status in {Status.IDLE, Status.PAUSED} and not state.undelivered)

    await eventually(still)
    return person.shown[before:]


async def test_a_chat_begins_anew_after_its_session_was_archived(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        first = owner.sid
        assert "archived" in await owner.say("/archive", wait=False)
        log = await owner.events()
        assert "This conversation has not begun" in await owner.say("/status", wait=False)
        assert "You said: hello" in await spoken(owner, "hello")
        second = await now(owner)
        assert second != first
        assert "Taint PUBLIC." in await owner.say("/taint", wait=False)
        assert await owner.events() == log
        # It is read as before, and changed by nothing.
        assert "pipeline" in await owner.say(f"/history {first}", wait=False)
        assert first in await owner.say("/sessions all", wait=False)
        assert first not in await owner.say("/sessions", wait=False)


async def test_another_process_finds_where_a_chat_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path, embedded=True) as owner:
        for _ in range(3):
            await spoken(owner, "hello")
            await owner.say("/archive", wait=False)
        await spoken(owner, "the fourth")
        last = await now(owner)
    async with running(tmp_path, embedded=True) as owner:
        assert await now(owner) == last
        assert "the fourth" in await owner.say("/history", wait=False)
        assert (await owner.send("on and on")).sid == last


@pytest.mark.parametrize("ends", ["/archive {}", "/delete {} confirm"])
async def test_what_is_told_again_is_no_input_of_the_next(tmp_path: Path, ends: str) -> None:
    async with running(tmp_path, embedded=True) as owner:
        await spoken(owner, "the first")
        await owner.say(ends.format(await now(owner)), wait=False)
        told = Inbound(owner.address, owner.account, "the second", "again")
        second = await owner.app.router.receive(told)
        await spoken(owner, "and more")
        await owner.say(ends.format(await now(owner)), wait=False)
        # Nothing stands after it, then something does; another process has yet to find out where the chat goes on.
        assert (await owner.app.router.receive(told)).sid == second.sid
        third = (await owner.send("the third")).sid
        assert third != second.sid
        assert (await owner.app.router.receive(told)).sid == second.sid
        await owner.app.store.sessions.stop(third, actor="owner")
    async with running(tmp_path, embedded=True) as owner:
        assert (await owner.app.router.receive(told)).sid == second.sid
        assert (await owner.send("the fourth")).sid == third
        assert (await owner.app.router.receive(told)).sid == second.sid
        assert "the second" not in owner.shown


async def test_what_is_archived_is_restored_until_its_chat_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        first = owner.sid
        await owner.say("/archive", wait=False)
        assert "restored" in await owner.say(f"/restore {first}", wait=False)
        assert "You said: again" in await owner.say("again")
        await owner.say("/archive", wait=False)
        await spoken(owner, "elsewhere")
        assert "its chat goes on in another" in await owner.say(f"/restore {first}", wait=False)


async def test_a_turn_that_runs_is_stopped_before(tmp_path: Path) -> None:
    async def never(_arguments: object, _context: object, _services: object) -> None:
        await eventually(_never, seconds=60)

    async with running(tmp_path, parts=parts(Probe(does=never))) as owner:
        await owner.say(bang("probe"), wait=False)

        async def runs() -> bool:
            return (await owner.state()).turn is not None

        await eventually(runs)
        assert "archived" in await owner.say("/archive", wait=False)
        assert (await owner.state()).status is Status.ARCHIVED


async def _never() -> bool:
    return False


async def test_what_rests_is_told_so_and_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        assert "rests" in await owner.say("/pause", wait=False)
        told = await spoken(owner, "later")
        assert "Your message waits until an admin types `/resume`." in told
        assert "You said" not in told
        assert "status paused" in await owner.say("/status", wait=False)
        for line in ("/reset", "/reset confirm"):
            assert "`/resume` lets it go on" in await owner.say(line, wait=False)
        await owner.say("/resume", wait=False)
        await owner.settled()
        assert "You said: later" in owner.shown
        assert "cannot do this" in await owner.say("/resume", wait=False)


async def test_a_turn_that_runs_when_it_is_paused_is_answered(tmp_path: Path) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    async def wait(_arguments: object, _context: object, _services: object) -> None:
        begun.set()
        await let_go.wait()

    async with running(tmp_path, parts=parts(Probe(does=wait))) as owner:
        await owner.send(bang("probe"))
        await begun.wait()
        await owner.say("/pause", wait=False)
        await owner.send("later")
        let_go.set()

        async def rests() -> bool:
            return (await owner.state()).rests

        await eventually(rests)
        state = await owner.state()
        assert state.turn is None
        assert state.last_turn is not None
        assert state.last_turn.reason is YieldReason.COMPLETED
        assert state.waiting_items == 1


async def test_what_rests_with_a_question_is_stopped_and_archived(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say(bang("message", channel="console", recipient="guest", text="hello"))
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        await owner.say("/pause", wait=False)
        await owner.say(f"/approve {asked.id}", wait=False)
        await owner.send("later")
        assert (await owner.state()).rests
        assert "→ guest" not in owner.shown
        assert "archived" in await owner.say("/archive", wait=False)
        state = await owner.state()
        assert (state.status, state.turn, state.waiting_items) == (Status.ARCHIVED, None, 0)
        assert "→ guest" not in owner.shown


async def test_delete_asks_first_and_leaves_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(f"remember {WORD}")
        await owner.say(bang("write_file", path="workspace/note.md", text=WORD))
        # The audit is not erased, so a name that was made up is not in it.
        await owner.say(bang(f"{WORD}_tool", text=WORD))
        await owner.say(f"/simulate {WORD}_tool {{}}")
        sid, store = owner.sid, owner.app.store
        asked = await owner.say("/delete", wait=False)
        assert f"/delete {sid} confirm" in asked
        assert WORD in str([one.body for one in await owner.events()])
        assert "The conversation is deleted" in await owner.say(f"/delete {owner.sid} confirm", wait=False)
        for key in await command(store, "KEYS", "*"):
            assert WORD.encode() not in (await command(store, "DUMP", key) or b""), key
        assert not list((tmp_path / "data").rglob("note.md"))
        assert await store.sessions.state(sid) is None
        assert "The conversation" not in await owner.say(f"/history {sid}", wait=False)
        assert "You said: hello" in await spoken(owner, "hello")
        assert await now(owner) != sid
        assert sid not in await owner.say("/sessions all", wait=False)


async def test_what_is_erased_has_to_be_named(tmp_path: Path) -> None:
    """Between the question and the confirmation the chat may have gone on in another conversation."""
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.say("/delete", wait=False)
        await owner.say("/archive", wait=False)
        await spoken(owner, "elsewhere")
        second = await now(owner)
        assert f"/delete {second} confirm" in await owner.say("/delete confirm", wait=False)
        assert await owner.app.store.sessions.state(second) is not None
        assert "The conversation is deleted" in await owner.say(f"/delete {owner.sid} confirm", wait=False)
        assert await owner.app.store.sessions.state(second) is not None


async def test_delete_takes_along_what_it_spawned(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task=f"look for {WORD}"))
        (slot,) = await owner.app.store.delegation.slots("owner")

        async def over() -> bool:
            state = await owner.app.store.sessions.state(slot.sid)
            return state is not None and state.status is Status.ARCHIVED

        await eventually(over)
        await owner.settled()
        assert "with 1 background session" in await owner.say(f"/delete {owner.sid} confirm", wait=False)
        assert await owner.app.store.sessions.state(slot.sid) is None


async def spawned(person: Person) -> SessionState:
    """Wait until the only background session is archived, and return it."""

    async def over() -> bool:
        return (await _child(person)).status is Status.ARCHIVED

    await eventually(over)
    await person.settled()
    return await _child(person)


async def _child(person: Person) -> SessionState:
    (slot,) = await person.app.store.delegation.slots("owner")
    state = await person.app.store.sessions.state(slot.sid)
    assert state is not None
    return state


async def test_what_was_spawned_and_rose_is_deleted_and_not_told_of(tmp_path: Path) -> None:
    places = {
        "desk": {"channel": "console", "chat": "desk", "clearance": "PUBLIC"},
        "vault": {"channel": "console", "chat": "vault", "clearance": "RESTRICTED~"},
    }
    people = {"owner": principal("console:owner", "console:desk")}
    async with running(tmp_path, policy(principals=people, recipients=places)) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
        reads = bang("read_file", path="confidential/pipeline.md")
        await desk.say(bang("sessions_spawn", task=reads, deliver_to="vault"))
        child = await spawned(desk)
        assert str(child.visibility) != "PUBLIC"
        shown = await desk.say(f"/delete {desk.sid} confirm", wait=False)
        assert "with 0 background sessions" in shown
        assert re.findall("- .*", shown) == ["- messages sent to `console::desk:`: 2"]
        assert await owner.app.store.sessions.state(child.sid) is None


async def test_what_was_spawned_is_told_of_with_what_it_sent(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task="hello", deliver_to="guest"))
        child = await spawned(owner)
        shown = await owner.say(f"/delete {child.sid} confirm", wait=False)
        assert "messages sent to `console::guest:`: 1" in shown
        assert f"handed to session {owner.sid}: 1" in shown


async def test_who_knows_of_no_other_chat_is_told_of_none(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner"), "bea": principal("console:bea", role="member", clearance="PUBLIC")}
    places = {"desk": {"channel": "console", "chat": "desk", "clearance": "PUBLIC"}}
    async with running(tmp_path, policy(principals=people, recipients=places)) as owner:
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        await bea.say(bang("message", channel="console", recipient="desk", text="hello"))
        assert "→ desk: hello" in owner.shown
        told = re.findall("- .*", await bea.say(f"/delete {bea.sid} confirm", wait=False))
        assert told == ["- messages sent to `console::bea:`: 1", "- messages sent to other chats: 1"]


async def test_what_could_not_be_worked_is_not_looked_for_any_more(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.app.quarantine.put(owner.sid, Doing.WORK, ValueError("broken"))
        assert await owner.app.quarantine.all()
        assert "The conversation is deleted" in await owner.say(f"/delete {owner.sid} confirm", wait=False)
        assert await owner.app.quarantine.all() == ()
        assert "intact" in await owner.say("/audit verify", wait=False)


async def test_a_slot_is_given_back_by_what_its_pool_may_know(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task=bang("read_file", path="confidential/pipeline.md")))
        child = await spawned(owner)
        spawner, lifecycle, top = owner.app.spawner, owner.app.lifecycle, owner.app.gate.document.top
        (slot,) = await owner.app.store.delegation.slots("owner")
        assert slot.live
        await lifecycle.delete(child, "owner", reader=top, typed=parse("CONFIDENTIAL"))
        await alter(owner.app.store, SLOT, slots_key("owner"), slot.run, lapses=1)
        await spawner.free("owner")
        (slot,) = await owner.app.store.delegation.slots("owner")
        assert slot.live
        assert await spawner.below("owner", owner.sid) == ()


async def test_what_could_not_be_deleted_to_its_end_is_deleted_again(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task=f"look for {WORD}"))
        child, store = await spawned(owner), owner.app.store
        inputs = session_keys(child.sid).inputs
        await command(store, "HSET", inputs, "broken", b"\x93")
        assert "The conversation is deleted" not in await owner.say(f"/delete {owner.sid} confirm", wait=False)
        assert await store.sessions.state(owner.sid) is not None
        await command(store, "HDEL", inputs, "broken")
        assert "with 1 background session" in await owner.say(f"/delete {owner.sid} confirm", wait=False)
        assert await store.sessions.state(child.sid) is None


async def test_a_question_that_stands_is_taken_back(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("read_file", path="public/welcome.md"))
        await owner.say(bang("message", channel="console", recipient="guest", text="hello"))
        (asked,) = await owner.app.store.approvals.of(owner.sid)
        assert (await owner.state()).status is Status.AWAITING_INPUT
        assert "The conversation is deleted" in await owner.say(f"/delete {owner.sid} confirm", wait=False)
        assert await owner.app.store.sessions.state(owner.sid) is None
        await owner.say(f"/approve {asked.id}", wait=False)
        assert "→ guest" not in owner.shown


async def test_a_turn_that_runs_writes_nothing_after_it(tmp_path: Path) -> None:
    begun, let_go = asyncio.Event(), asyncio.Event()

    async def wait(_arguments: object, _context: object, _services: object) -> None:
        begun.set()
        with CancelScope(shield=True):
            await let_go.wait()

    async with running(tmp_path, parts=parts(Probe(does=wait))) as owner:
        await owner.send(bang("probe"))
        await begun.wait()
        assert "The conversation is deleted" in await owner.say(f"/delete {owner.sid} confirm", wait=False)
        let_go.set()
        await spoken(owner, "hello")
        store, keys = owner.app.store, session_keys(owner.sid)
        left = {key.decode() for key in await command(store, "KEYS", f"{keys.prefix}*")}
        assert left == {keys.state, keys.audit, keys.inputs}
        assert owner.shown.count("You said") == 1


async def test_a_machine_forgets_the_workspace_of_what_another_one_deleted(tmp_path: Path) -> None:
    async with running(tmp_path, embedded=True) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"))
        for person in (owner, desk):
            await person.say(bang("write_file", path="workspace/note.md", text=WORD))
        # As where the session is deleted on a machine that does not have its workspace.
        await owner.app.store.lifecycle.delete(owner.sid, ())
        gone, kept = owner.sid, desk.sid

    def held() -> set[str]:
        # `os.walk` passes over a folder that is deleted while it looks, as it is here.
        found = (Path(folder) for folder, _, files in os.walk(tmp_path / "data") if "note.md" in files)
        return {folder.parent.name for folder in found if "labels" not in str(folder)}

    assert {gone, kept} <= held()
    async with running(tmp_path, embedded=True):

        async def cleared() -> bool:
            return gone not in held()

        await eventually(cleared)
    assert kept in held()


async def test_one_that_may_not_be_told_of_is_ended_blindly(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner", "console:desk"), "bea": principal("console:bea", role="member")}
    places = {"desk": {"channel": "console", "chat": "desk", "clearance": "PUBLIC"}}
    async with running(tmp_path, policy(principals=people, recipients=places)) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        for line in ("/archive {}", "/pause {}", "/resume {}", "/restore {}", "/delete {} confirm"):
            for person, sid in ((desk, owner.sid), (desk, "nothing"), (desk, "x" * 500)):
                assert BLIND in await person.say(line.format(sid), wait=False)
            before = await owner.state() if "delete" not in line else None
            if "pause" not in line and "resume" not in line:
                assert BLIND in await bea.say(line.format(owner.sid), wait=False)
            assert before is None or await owner.state() == before
        assert await owner.app.store.sessions.state(owner.sid) is None


async def test_another_principal_deletes_nothing(tmp_path: Path) -> None:
    people = {"owner": principal("console:owner"), "bea": principal("console:bea", clearance="RESTRICTED~")}
    async with running(tmp_path, policy(principals=people)) as owner:
        bea = Person(owner.app, owner.output, Address("console", "bea"), "console:bea")
        await owner.say("hello")
        before = await owner.state()
        for line in ("/archive {}", "/delete {} confirm", "/restore {}"):
            assert BLIND in await bea.say(line.format(owner.sid), wait=False)
        assert await owner.state() == before


async def test_deleting_leaves_no_byte_in_the_stores_file(tmp_path: Path) -> None:
    async with running(tmp_path, embedded=True) as owner:
        await owner.say(f"remember {WORD}")
        await owner.say(f"/delete {owner.sid} confirm", wait=False)

        async def clean() -> bool:
            files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
            return not any(WORD.encode() in path.read_bytes() for path in files)

        await eventually(clean)


async def test_a_workspace_that_could_not_be_erased_is_named(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("write_file", path="workspace/note.md", text=WORD))
        ((folder,),) = [[path.parents[1]] for path in (tmp_path / "data").rglob("note.md") if path.parent.name == "1"]
        # As if a folder of it belonged to somebody else: it cannot be erased as one.
        (folder / "0").write_text(WORD)
        assert WORKSPACE_LEFT in await owner.say(f"/delete {owner.sid} confirm", wait=False)


async def test_a_server_that_could_not_rewrite_its_file_is_named(tmp_path: Path) -> None:
    async with running(tmp_path, embedded=True) as owner:
        await owner.say(f"remember {WORD}")
        (manifest,) = (tmp_path / "data").rglob("appendonly.aof.manifest")
        for number in range(2, 9):
            # In the way of the file that the server writes next.
            (manifest.parent / f"appendonly.aof.{number}.base.rdb").mkdir(exist_ok=False)
        shown = await owner.say(f"/delete {owner.sid} confirm", wait=False)
        assert f"- the store's file, until it is rewritten: {NOT_WRITTEN}" in shown
