"""What people change while Lockgate runs counts in every process before its next decision, and for turns under way."""

import asyncio
from pathlib import Path

import pytest

from bot.gate.results import NOT_KNOWN
from bot.ingress.router import Routed
from bot.policy_state import ChangeBase, Changing
from bot.sessions.audit import AuditRow
from bot.sessions.log.event_types import ToolResult
from bot.sessions.log.events import Event
from bot.store.schema import OVERRIDES, POLICY
from channels.messages import Address
from policy.document.overrides import AccessChange, ChatPlace, Overrides, Placing
from policy.document.overrides import Person as Changed
from policy.labels import PUBLIC, parse
from tests.bot.kit import Scripted, bang, eventually, parts, proposed
from tests.bot.test_policy_in_force import process, unheard, write
from tests.harness import Person, running

pytestmark = pytest.mark.anyio

BEN = (
    "policy:\n"
    "  principals:\n"
    "    boss: {role: owner, clearance: top, accounts: ['console:owner']}\n"
    "    ben: {role: member, clearance: CONFIDENTIAL~, accounts: ['console:ben']}\n"
    "  paired: {role: member, clearance: INTERNAL}\n"
    "  recipients:\n"
    "    owner: {channel: console, chat: owner, clearance: top}\n"
    "    ben: {channel: console, chat: ben, clearance: top}\n"
)
TEAM = ChatPlace("console", "", "team")
BLOCKED = AccessChange(accounts={"console:ben": True})
LOWERED = AccessChange(people={"ben": Changed(clearance=PUBLIC)})


def ben_of(person: Person) -> Person:
    return Person(person.app, person.output, Address("console", "ben"), "console:ben")


async def change(person: Person, change: AccessChange) -> None:
    await person.app.reloader.change(lambda _: Changing(change, (AuditRow("access", "boss", {}),)))


def results(events: tuple[Event, ...]) -> list[object]:
    return [event.body.outcome for event in events if isinstance(event.body, ToolResult)]


async def test_a_change_is_in_force_here_when_it_is_made(tmp_path: Path) -> None:
    async with running(tmp_path, BEN) as owner:
        file = owner.app.gate.document.digest
        await change(owner, BLOCKED)
        assert owner.app.gate.document.principal("console:ben") is None
        assert owner.app.gate.document.digest != file == owner.app.reloader.digest
        shown = await owner.say("/policy", wait=False)
        assert f"Policy {file[:12]} is in force" in shown
        assert f"decides as {owner.app.gate.document.digest[:12]}" in shown
        await change(owner, AccessChange(accounts={"console:ben": False}))
        assert owner.app.gate.document.digest == file
        assert "decides as" not in await owner.say("/policy", wait=False)


async def test_a_change_made_in_one_process_counts_in_the_other_before_its_next_decision(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", BEN) as one, process(tmp_path, "b.yaml", BEN) as two:
        await change(one, AccessChange(places={TEAM: Placing(parse("INTERNAL"))}))
        await two.say("/status", wait=False)
        chat = two.app.gate.document.chat("console", "", "team")
        assert chat is not None
        assert chat.classification == parse("INTERNAL")
        await change(two, LOWERED)
        await ben_of(one).say(bang("read_file", path="internal/handbook.md"))
        # Either of them may have taken the turn.
        said = one.shown + two.shown
        assert not [result for result in results(await ben_of(one).events()) if result == "ok"]
        assert "more than may be told here" in said or "may not" in said or "would know more" in said
        # The process that did not run the turn looks at its next command.
        await one.say("/status", wait=False)
        assert one.app.gate.document == two.app.gate.document
        assert not one.told
        assert not two.told


async def test_a_command_is_authorized_by_what_was_changed_elsewhere(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", BEN) as one, process(tmp_path, "b.yaml", BEN) as two:
        assert "You are ben" in await ben_of(two).say("/whoami", wait=False)
        await change(one, BLOCKED)
        assert "You are ben" not in await ben_of(two).say("/whoami", wait=False)
        await change(two, AccessChange(accounts={"console:ben": False}))
        assert "You are ben" in await ben_of(one).say("/whoami", wait=False)


async def test_a_message_of_somebody_let_in_elsewhere_is_taken_in(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", BEN) as one, running(tmp_path, BEN, serve=False) as two:
        await two.app.reloader.start(unheard)
        await change(one, AccessChange(people={"zoe": Changed(accounts=frozenset({"console:zoe"}))}))
        zoe = Person(two.app, two.output, Address("console", "zoe"), "console:zoe")
        assert (await zoe.send("hello")).outcome is Routed.ACCEPTED


async def test_a_reload_and_a_start_keep_what_was_changed(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", BEN) as one:
        await change(one, BLOCKED)
        write(
            tmp_path, "a.yaml", BEN + "  rules: [{id: r, hook: PRE_TOOL_CALL, tools: [current_time], action: BLOCK}]\n"
        )
        await one.say("/policy reload", wait=False)
        assert one.app.gate.document.principal("console:ben") is None
        assert len(one.app.gate.document.rules) == 1
    async with process(tmp_path, "a.yaml", BEN) as again:
        assert again.app.gate.document.principal("console:ben") is None


async def test_who_does_not_serve_decides_by_it_too(tmp_path: Path) -> None:
    async with running(tmp_path, BEN) as owner:
        await change(owner, BLOCKED)
        async with running(tmp_path, BEN, serve=False) as other:
            assert other.app.gate.document.principal("console:ben") is None


async def test_a_head_that_was_lost_takes_no_change_with_it(tmp_path: Path) -> None:
    async with process(tmp_path, "a.yaml", BEN) as one:
        await change(one, BLOCKED)
        await one.app.store._shared.connection.commands(("DEL", POLICY))  # pyright: ignore[reportPrivateUsage] - harm

        async def there() -> bool:
            head = await one.app.store.policy.read_policy()
            return head is not None and head.over == 1

        await eventually(there)
        assert one.app.gate.document.principal("console:ben") is None


async def test_changes_that_meet_are_both_made(tmp_path: Path) -> None:
    """What was changed meanwhile is read again before a change is made from it."""
    async with process(tmp_path, "a.yaml", BEN) as one, process(tmp_path, "b.yaml", BEN) as two:

        def once_more(known: ChangeBase) -> Changing:
            before = known.overrides.places.get(TEAM, Placing(PUBLIC))
            assert before.classification is not None
            row = AuditRow("access", "boss", {"people": len(known.overrides.people)})
            number = str(len(known.overrides.blocked))
            return Changing(AccessChange({}, {TEAM: before}, {f"console:{number}": True}), (row,))

        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task((one, two)[number % 2].app.reloader.change(once_more))
        _, overrides = await one.app.store.access.overrides()
        assert overrides == Overrides(
            {}, {TEAM: Placing(PUBLIC)}, frozenset(f"console:{number}" for number in range(10))
        )


@pytest.mark.parametrize(
    "made, told, outcomes",
    [
        (LOWERED, "done", ["denied", "ok"]),
        (BLOCKED, NOT_KNOWN, ["denied", "denied"]),
    ],
)
async def test_a_turn_under_way_knows_no_more_than_its_person_may_now(
    tmp_path: Path, made: AccessChange, told: str, outcomes: list[object]
) -> None:
    """Somebody who is lowered or blocked meanwhile counts so from the next call on."""
    asked = asyncio.Event()
    calls = [
        proposed("read_file", {"path": "internal/handbook.md"}),
        proposed("write_file", {"path": "public/note.md", "text": "hello"}, name="y"),
    ]
    model = Scripted(calls, "done", wait=asked)

    async def thinking() -> bool:
        return bool(model.asked)

    async with running(tmp_path, BEN, parts=parts(model=model)) as owner:
        ben = ben_of(owner)
        await ben.send("read it")
        await eventually(thinking)
        await change(owner, made)
        asked.set()
        await ben.settled()
        assert results(await ben.events()) == outcomes
        assert (await ben.state()).taint == PUBLIC
        assert told in ben.shown


async def test_somebody_let_in_and_sent_away_again_counts_for_a_turn_under_way(tmp_path: Path) -> None:
    asked = asyncio.Event()
    model = Scripted([proposed("current_time")], "done", wait=asked)

    async def thinking() -> bool:
        return bool(model.asked)

    async with running(tmp_path, BEN, parts=parts(model=model)) as owner:
        await change(owner, AccessChange(people={"zoe": Changed(accounts=frozenset({"console:zoe"}))}))
        zoe = Person(owner.app, owner.output, Address("console", "zoe"), "console:zoe")
        await zoe.send("what time is it?")
        await eventually(thinking)
        await change(owner, AccessChange(people={"zoe": None}))
        asked.set()
        await zoe.settled()
        assert results(await zoe.events()) == ["denied"]
        assert NOT_KNOWN in zoe.shown


async def test_a_session_above_a_clearance_that_was_lowered_freezes(tmp_path: Path) -> None:
    """Nothing is read and nothing above it is said, until the session starts anew or the clearance is back."""
    async with running(tmp_path, BEN) as owner:
        ben = ben_of(owner)
        await ben.say(bang("read_file", path="confidential/pipeline.md"))
        assert (await ben.state()).taint == parse("CONFIDENTIAL~")
        await change(owner, LOWERED)
        log = len(await ben.events())
        said = await ben.say(bang("read_file", path="public/welcome.md"))
        assert "Welcome" not in said
        assert "You said" not in said
        assert results((await ben.events())[log:]) == []
        await change(owner, AccessChange(people={"ben": None}))
        assert "You said: hello" in await ben.say("hello")


async def test_changes_that_cannot_be_read_put_nothing_in_force(tmp_path: Path) -> None:
    async with running(tmp_path, BEN, serve=False) as owner:
        before = owner.app.gate.document
        await owner.app.store._shared.connection.commands(("HSET", OVERRIDES, "version", 99, "count", 4))  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(Exception, match="version"):
            await owner.app.reloader.open()
        assert owner.app.gate.document is before
