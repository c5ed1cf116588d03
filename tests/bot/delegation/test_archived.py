"""A background session that has ended and was heard is archived: still to be read, and changed by nobody."""

import asyncio
from pathlib import Path

import pytest

from bot.core.errors import ArchivedError, sentence
from bot.sessions.models import Status
from bot.tools.sending import OVER
from channels.messages import Address
from tests.bot.kit import Probe, bang, eventually, parts
from tests.harness import Person, running
from tests.store.world import put_state

pytestmark = pytest.mark.anyio

REFUSED = str(ArchivedError())


async def archived(person: Person) -> None:
    await put_state(person.app.store, person.sid, status="archived")


async def over(person: Person) -> str:
    """Wait until the only background session is archived, and return its id."""

    async def done() -> bool:
        found = [
            await person.app.store.sessions.state(slot.sid) for slot in await person.app.store.delegation.slots("owner")
        ]
        return bool(found) and all(state is not None and state.status is Status.ARCHIVED for state in found)

    await eventually(done)
    await person.settled()
    return (await person.app.store.delegation.slots("owner"))[0].sid


async def test_a_finished_task_is_archived_and_listed_with_all(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task="look", title="the harbour"))
        sid = await over(owner)
        assert sid not in await owner.say(bang("sessions_list"))
        assert sid not in await owner.say("/sessions")
        shown = await owner.say("/sessions all")
        assert f"{sid} the harbour" in shown
        assert "archived" in shown
        # It is read as before, and changed by nothing.
        assert '"status": "archived"' in await owner.say(bang("session_status", session_id=sid))
        assert "look" in await owner.say(bang("sessions_history", session_id=sid))
        assert "look" in await owner.say(f"/history {sid}")
        assert OVER in await owner.say(bang("sessions_send", session_id=sid, content="go on"))
        assert OVER in await owner.say(f"/send {sid} go on")
        assert sentence(REFUSED) in await owner.say(f"/agents cancel {sid}")
        assert "ended, completed" in await owner.say("/agents")


async def test_pages_of_all_go_on_with_all(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        for number in range(21):
            sid = f"s{number}"
            await owner.say("hello", wait=False)
            desk = Person(owner.app, owner.output, Address("console", sid), "console:owner")
            await desk.send("hello")
            await desk.settled()
            await archived(desk)
        assert "More with `/sessions all " in await owner.say("/sessions all")
        assert "More with" not in await owner.say("/sessions")


async def test_one_that_waits_for_its_child_comes_back_for_its_report(tmp_path: Path) -> None:
    let_go = asyncio.Event()

    async def wait(_arguments: object, _context: object, _services: object) -> None:
        await let_go.wait()

    async with running(tmp_path, parts=parts(Probe(does=wait))) as owner:
        await owner.say(bang("sessions_spawn", task=bang("sessions_spawn", task=bang("probe"))))

        async def rests() -> bool:
            found = [
                await owner.app.store.sessions.state(slot.sid)
                for slot in await owner.app.store.delegation.slots("owner")
            ]
            return [state.status for state in found if state and state.lineage and state.lineage.depth == 1] == [
                Status.ARCHIVED
            ]

        await eventually(rests)
        let_go.set()
        await eventually(lambda: _reported(owner))
        await over(owner)


async def _reported(owner: Person) -> bool:
    return owner.shown.count("You said: [result of background session") >= 3


async def test_a_risen_task_is_archived_where_nobody_below_sees_it(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say(bang("sessions_spawn", task=bang("read_file", path="confidential/pipeline.md")))
        await over(owner)
        listed = await owner.say(bang("sessions_list"))
        before = [event.seq for event in await owner.events()]
        assert listed.count('\\"id\\"') <= 1
        assert before == list(range(1, len(before) + 1))
