"""Commands about a conversation, against a real store: their answers, their readers and their effects."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bot.commands.conversation import FILES_LEFT
from bot.files.locations import workspace
from bot.sessions.log.events import EventType
from channels.messages import Address
from policy.labels import PUBLIC, parse
from tests.bot.commands.kit import COUPLE, READ, WRITE, context
from tests.bot.kit import TOP, bang, policy
from tests.harness import running
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio


async def test_before_the_first_message_there_is_nothing_to_tell(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        for command in ("/status", "/taint", "/reset confirm"):
            assert "This conversation has not begun" in await person.say(command)
        assert "Nothing was refused" in await person.say("/why")
        assert "Nothing waits for an answer." in await person.say("/approvals")
        assert "nothing to stop" in await person.say("/stop")
        assert "Say something first." in await person.say("/taint raise INTERNAL")
        assert await person.app.store.sessions.state(person.sid) is None


async def test_whoami_and_status_tell_clearances(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        assert "You are owner, owner, cleared for RESTRICTED~" in await person.say("/whoami")
        await person.say(READ)
        told = await person.say("/status")
        assert "status idle, taint CONFIDENTIAL~" in told
        assert "last turn completed" in told
        assert (await person.app.commands.answer(context(person), "/status")).label == parse("CONFIDENTIAL~")


async def test_taint_tells_what_raised_it(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(bang("read_file", path="internal/handbook.md"))
        await person.say(READ)
        told = await person.say("/taint")
        assert (
            "Taint CONFIDENTIAL~.\n  - INTERNAL~ → CONFIDENTIAL~ by read_file\n  - PUBLIC → INTERNAL~ by read_file"
            in told
        )


async def test_a_raise_is_an_admitted_event_and_never_lowers(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say("hello")
        assert "Taint INTERNAL." in await person.say("/taint raise INTERNAL")
        assert "that is PUBLIC or more already" in await person.say("/taint raise PUBLIC")
        assert "Taint INTERNAL~." in await person.say("/taint raise PUBLIC~")
        raised = [event for event in await person.events() if event.type is EventType.TAINT_RAISED]
        assert [(event.admitted, str(event.label)) for event in raised] == [(True, "INTERNAL"), (True, "INTERNAL~")]
        assert str((await person.state()).taint) == "INTERNAL~"
        assert "Unknown compartment `hr`." in await person.say("/taint raise INTERNAL{hr}")


async def test_a_compartment_there_is_not_tells_of_no_other(tmp_path: Path) -> None:
    async with running(tmp_path, policy(compartments=["merger", "layoffs"])) as person:
        for wrong in ("x", "merge", "layoff"):
            told = await person.say(f"/taint raise INTERNAL{{{wrong}}}", wait=False)
            assert f"Unknown compartment `{wrong}`" in told
            assert not {"`merger`", "`layoffs`"}.intersection(told.split())


async def test_six_raises_are_too_many_to_list(tmp_path: Path) -> None:
    names = ["aa", "bb", "cc", "dd", "ee", "ff"]
    async with running(tmp_path, policy(compartments=names)) as person:
        await person.say("hello")
        for name in names:
            await person.say(f"/taint raise PUBLIC{{{name}}}")
        assert "And 1 raises before these." in await person.say("/taint")


async def test_a_raise_above_the_model_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, policy(models={"offline": {"clearance": "INTERNAL"}})) as person:
        await person.say("hello")
        told = await person.say("/taint raise CONFIDENTIAL")
        assert "Refused: /taint raise." in told
        assert "read_is_decided_before_it_happens" in told
        assert (await person.state()).taint == PUBLIC


async def test_a_raise_while_a_turn_is_open_is_busy(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(WRITE)
        assert "Busy" in await person.say("/taint raise RESTRICTED")
        held = await person.app.store.sessions.claim(person.sid, person.app.ids.owner(), idle=True)
        assert held is not None
        assert "Busy" in await person.say("/taint raise RESTRICTED", wait=False)
        await person.app.store.sessions.release(held)


async def test_a_reset_is_asked_before_it_is_done(tmp_path: Path) -> None:
    async with running(tmp_path) as person:
        await person.say(READ)
        await person.say(bang("write_file", path="workspace/draft.md", text="mine"))
        before = await person.state()
        told = await person.say("/reset")
        assert "Its taint CONFIDENTIAL~ becomes PUBLIC." in told
        assert (await person.state()).generation == before.generation
        assert "A new conversation begins, taint PUBLIC" in await person.say("/reset confirm")
        after = await person.state()
        assert (after.generation, after.taint) == (before.generation + 1, PUBLIC)
        assert not list((tmp_path / "data/session-files" / person.sid).iterdir())


async def test_a_workspace_that_a_reset_could_not_erase_is_told_and_erased_by_the_next(tmp_path: Path) -> None:
    server = SERVERS.buckets()
    address = await asyncio.to_thread(server.fresh)
    config = f"files: {{bucket: {{name: {address.name}, endpoint: {address.endpoint}}}}}\n"
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    async with running(tmp_path, config, environment=keys) as person:
        draft = bang("write_file", path="workspace/draft.md", text="mine")
        await person.say(draft)
        await asyncio.to_thread(server.fail, "denied", "GET", 100)
        try:
            told = await person.say("/reset confirm")
        finally:
            await asyncio.to_thread(server.fail, "denied", "GET", 0)
        assert f"A new conversation begins, taint PUBLIC. {FILES_LEFT}" in told
        files, sid = person.app.files, person.sid
        before = workspace(sid, (await person.state()).generation - 1, "draft.md")
        assert await asyncio.to_thread(files.find, before, TOP) is not None
        assert FILES_LEFT not in await person.say("/reset confirm")
        assert await asyncio.to_thread(files.find, before, TOP) is None


async def test_a_rule_can_refuse_a_reset(tmp_path: Path) -> None:
    rule = {"id": "keep-it", "hook": "SESSION_RESET", "action": "BLOCK", "message": "kept"}
    async with running(tmp_path, policy(rules=[rule])) as person:
        await person.say(READ)
        for command in ("/reset", "/reset confirm"):
            assert "Refused: /reset." in await person.say(command)
        assert str((await person.state()).taint) == "CONFIDENTIAL~"


async def test_stop_cancels_what_waits(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as person:
        await person.send("one")
        await person.send("two")
        assert "Nothing was running, 2 waiting messages cancelled." in await person.say("/stop", wait=False)
        assert (await person.state()).waiting_items == 0


async def test_an_answer_above_the_address_is_withheld(tmp_path: Path) -> None:
    async with running(tmp_path, COUPLE) as person:
        bea = replace(person, address=Address("console", "bea"), account="console:bea")
        told = await bea.say("/whoami")
        assert "You are bea, member, cleared for INTERNAL" in told
