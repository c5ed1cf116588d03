"""What has ended and was heard is archived: not listed as active, still to be read, and changed by nobody."""

import asyncio
from pathlib import Path

import pytest

from bot.commands.table import COMMANDS
from bot.core.errors import ArchivedError
from bot.sessions.models import Status
from bot.tools.sending import OVER
from channels.messages import Address
from tests.bot.kit import Probe, bang, eventually, parts, policy
from tests.harness import Person, running
from tests.people import principal
from tests.store.world import put_state

pytestmark = pytest.mark.anyio

REFUSED = str(ArchivedError())

CHANGING = {
    "name": "/name the plan",
    "model": "/model offline",
    "taint": "/taint raise CONFIDENTIAL",
    "queue": "/queue steer",
    "summarize": "/summarize",
    "spawn": "/spawn look",
    "send": "/send {other} hi",
    "message": "/message console guest hi",
    "release": "/release last to guest",
    "reset": "/reset confirm",
    "stop": "/stop",
}
"""A line of every command that changes the conversation it is typed in."""

READING = frozenset(
    [
        "help",
        "whoami",
        "status",
        "usage",
        "why",
        "simulate",
        "sessions",
        "history",
        "export",
        "approvals",
        "questions",
        "held",
        "agents",
        "audit",
        "config",
        "doctor",
    ]
)
"""Commands that only tell something."""

ELSEWHERE = frozenset(
    [
        "answer",
        "approve",
        "deny",
        "continue",
        "background",
        "pair",
        "allow",
        "block",
        "classify",
        "deadletter",
        "policy",
        "quit",
    ]
)
"""Commands that are about something else: a question, an offer, a person, a chat, or the installation."""


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


def test_every_command_is_in_one_of_the_tables() -> None:
    assert {one.name for one in COMMANDS} == CHANGING.keys() | READING | ELSEWHERE
    assert not READING & ELSEWHERE


@pytest.mark.parametrize("line", CHANGING.values(), ids=CHANGING.keys())
async def test_an_archived_conversation_is_changed_by_no_command(tmp_path: Path, line: str) -> None:
    people = {"owner": principal("console:owner", may_release=True)}
    async with running(tmp_path, policy(principals=people)) as owner:
        await owner.say("hello")
        await archived(owner)
        before, log = await owner.state(), await owner.events()
        assert REFUSED in await owner.say(line.format(other=owner.sid), wait=False)
        assert (await owner.state(), await owner.events()) == (before, log)


async def test_what_is_said_in_an_archived_conversation_is_refused_alike(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await archived(owner)
        assert REFUSED in await owner.say("hello again", wait=False)
        assert "status archived" in await owner.say("/status", wait=False)
        assert "hello" in await owner.say("/history", wait=False)


@pytest.mark.parametrize("line", CHANGING.values(), ids=CHANGING.keys())
async def test_one_that_may_not_be_known_of_is_absent(tmp_path: Path, line: str) -> None:
    people = {"owner": principal("console:owner", "console:desk", may_release=True)}
    places = {
        "owner": {"channel": "console", "chat": "owner", "clearance": "INTERNAL"},
        "desk": {"channel": "console", "chat": "desk", "clearance": "INTERNAL"},
        "guest": {"channel": "console", "chat": "guest", "clearance": "PUBLIC"},
    }
    async with running(tmp_path, policy(principals=people, recipients=places)) as owner:
        desk = Person(owner.app, owner.output, Address("console", "desk"), "console:desk")
        await owner.say(bang("read_file", path="confidential/pipeline.md"))
        await archived(owner)
        told = await owner.say(line.format(other="nothing"), wait=False)
        absent = await desk.say(line.format(other="nothing"), wait=False)
        assert told.strip() == absent.removeprefix("→ desk: ").strip()


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
        assert REFUSED in await owner.say(f"/agents cancel {sid}")
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
        assert "more with `/sessions all " in await owner.say("/sessions all")
        assert "more with" not in await owner.say("/sessions")


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
