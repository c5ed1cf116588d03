"""A session that cannot be worked is left alone for longer and longer, and operators are told of it once."""

# pyright: reportPrivateUsage=false

import asyncio
import json
import logging
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from bot.audit.visibility import AuditTrail
from bot.cli.doctor import doctor
from bot.cli.sessions import list_sessions, release_session
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import UNREADABLE, OperatorError, SchemaError, StoreGoneError
from bot.delivery.relay import Relay
from bot.delivery.sweep import SWEEP_SECONDS, Sweep
from bot.quarantine import QUARANTINED
from bot.sessions.audit import AuditRecord
from bot.sessions.deliveries import NewDelivery
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from bot.sessions.models import SCHEMA, Doing, Quarantined
from bot.store.records import kinds
from bot.store.schema import QUARANTINE, RECENT, session_keys
from bot.store.servers.refusals import refusal_for
from bot.tools import catalogue
from channels.messages import Address
from policy.labels import PUBLIC, parse
from tests.bot.kit import Probe, TextArguments, eventually, parts, policy
from tests.harness import Person, running
from tests.people import principal
from tests.servers import SERVERS
from tests.store.world import alter, drop_state, put_state

pytestmark = pytest.mark.anyio

SIDE = Address("console", "side")
HOUR = 3_600_000


def owner_cleared_for(clearance: str) -> str:
    owner = principal("console:owner", clearance=clearance)
    return policy(principals={"owner": owner}, channels={"console": {"classification": "top"}}, recipients={})


async def put(owner: Person, field: str, value: str, home: Address = SIDE) -> str:
    """Write something into a session's record; return which session that is."""
    sid = owner.app.session_id(home)
    await put_state(owner.app.store, sid, **{field: value})
    return sid


async def accepted(owner: Person, dedupe: str, home: Address = SIDE) -> str:
    sid = owner.app.session_id(home)
    await owner.app.store.sessions.accept(
        replace(
            NewItem(sid, dedupe, "owner", PUBLIC, SessionMessage("hello"), str(home), "owner"),
            agent=await owner.app.agents.pin("owner"),
        )
    )
    return sid


async def damaged(owner: Person) -> str:
    """Return a session with work that cannot be done."""
    await accepted(owner, "d1")
    return await put(owner, "taint", "NOSUCH")


async def apart(owner: Person) -> tuple[Quarantined, ...]:
    return await owner.app.store.quarantine.quarantined()


async def told(owner: Person, *kinds: str) -> list[AuditRecord]:
    return [row async for row in owner.app.chains.records("audit") if row.kind in kinds]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "bot.quarantine"]


async def test_it_is_tried_less_often_with_one_row_and_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "bot.quarantine")
    async with running(tmp_path, serve=False) as owner:
        sid = await damaged(owner)
        serving = asyncio.create_task(owner.app.serve())

        async def again() -> bool:
            return bool(found := await apart(owner)) and found[0].tries > 2

        await eventually(again)
        (one,) = await apart(owner)
        assert (one.sid, one.doing, one.error) == (sid, Doing.WORK, "SchemaError")
        assert one.rest > 2_500
        # Another conversation meanwhile.
        assert "You said: hello" in await owner.say("hello")
        assert [row.body["session"] for row in await told(owner, "quarantined", "failed")] == [sid]
        assert lines(caplog) == [QUARANTINED]
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def test_what_rests_is_not_worked_and_others_are(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        sid, store = owner.app.session_id(SIDE), owner.app.store
        await owner.app.quarantine.put(sid, Doing.WORK, SchemaError("x"))
        await alter(store, kinds.QUARANTINED, QUARANTINE, f"{sid}/work", lapses=store.tokens.now_ms() + HOUR)
        await owner.app.quarantine.refresh()
        await accepted(owner, "d1")
        serving = asyncio.create_task(owner.app.serve())
        assert "You said: again" in await owner.say("again")
        await asyncio.sleep(0.5)
        assert "You said: hello" not in owner.shown
        await alter(store, kinds.QUARANTINED, QUARANTINE, f"{sid}/work", lapses=1)
        await eventually(lambda: _is(owner, 0))
        await Person(owner.app, owner.output, SIDE).settled()
        assert "You said: hello" in owner.shown
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def test_the_row_of_a_session_that_can_be_read_has_its_label(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        sid = await accepted(owner, "d1")
        await owner.app.quarantine.put(sid, Doing.WORK, SchemaError("x"))
        trail = AuditTrail(owner.app.store, owner.app.chains, lambda: owner.app.config.policy.top)

        async def kinds() -> set[str]:
            return {told.record.kind async for told in trail.rows("audit", PUBLIC)}

        assert "quarantined" in await kinds()
        await put(owner, "taint", "INTERNAL")
        assert "quarantined" not in await kinds()


async def test_it_goes_on_when_the_record_can_be_read_and_is_let_out(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        sid = await damaged(owner)
        await eventually(lambda: _is(owner, 1))
        await put(owner, "taint", "PUBLIC")
        await drop_state(owner.app.store, sid, "owner", "lease_until")
        assert await owner.app.quarantine.release(sid, "owner")
        await eventually(lambda: _is(owner, 0))
        side = Person(owner.app, owner.output, SIDE)
        await side.settled()
        assert "You said: hello" in owner.shown
        assert [row.actor for row in await told(owner, "released")] == ["owner"]


async def test_it_is_let_out_by_itself_when_it_was_worked(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        sid = await damaged(owner)
        await eventually(lambda: _is(owner, 1))
        await put(owner, "taint", "PUBLIC")
        await drop_state(owner.app.store, sid, "owner", "lease_until")
        await eventually(lambda: _is(owner, 0))
        assert [row.actor for row in await told(owner, "released")] == ["work"]
        assert "You said: hello" in owner.shown


async def test_it_is_let_out_by_itself_when_nothing_is_left_to_do(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.app.quarantine.put(owner.sid, Doing.WORK, SchemaError("x"))
        await eventually(lambda: _is(owner, 0))


async def _is(owner: Person, count: int) -> bool:
    return len(await apart(owner)) == count


async def test_a_session_that_ends_its_worker_three_times_is_put_apart(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        sid = await accepted(owner, "d1")
        for number in range(3):
            # A worker that took it, and was ended before it wrote anything.
            claim = await owner.app.store.sessions.claim(sid, f"w{number}", most=3)
            assert claim is not None
            await drop_state(owner.app.store, sid, "owner", "lease_until")
        serving = asyncio.create_task(owner.app.serve())
        await eventually(lambda: _is(owner, 1))
        (one,) = await apart(owner)
        assert one.error == "WornError"
        # After its pause it is tried once more, and then it can be worked.
        await eventually(lambda: _is(owner, 0))
        assert "You said: hello" in owner.shown
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def test_a_newer_program_need_not_wait_for_what_an_older_one_could_not_read(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        quarantine = owner.app.quarantine
        await quarantine.put("s", Doing.WORK, SchemaError("x"))
        assert quarantine.rests("s")
        await alter(owner.app.store, kinds.QUARANTINED, QUARANTINE, f"s/{Doing.WORK}", schema=0)
        await quarantine.refresh()
        assert not quarantine.rests("s")
        assert quarantine.due() == ("s",)


async def test_intake_that_fails_keeps_no_worker_away(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await owner.send("hello")
        await put(owner, "version", "99", owner.address)
        for _ in range(2):
            with pytest.raises(SchemaError):
                await owner.send("lost")
        (one,) = await apart(owner)
        assert (one.doing, owner.app.quarantine.rests(owner.sid)) == (Doing.INTAKE, False)
        assert len(await told(owner, "quarantined")) == 1
        await put(owner, "version", str(SCHEMA), owner.address)
        await owner.send("again")
        assert await apart(owner) == ()


async def test_a_store_that_refuses_everyone_puts_no_session_apart(tmp_path: Path) -> None:
    """It refuses until a replica follows; a moment later it would take the note, which nobody would take back."""
    async with running(tmp_path, serve=False) as owner:
        for doing in Doing:
            await owner.app.quarantine.put(owner.sid, doing, refusal_for(ResponseError("NOREPLICAS Not enough good")))
            await owner.app.quarantine.put(owner.sid, doing, StoreGoneError("the store does not answer"))
        assert await apart(owner) == ()
        await owner.app.quarantine.put(owner.sid, Doing.INTAKE, refusal_for(ResponseError("ERR of this record alone")))
        assert len(await apart(owner)) == 1


async def test_programs_of_another_schema_sweep_for_themselves(tmp_path: Path) -> None:
    """An older one that has the turn passes over the sessions of a newer one, which would wait."""
    async with running(tmp_path, serve=False) as owner:
        app = owner.app
        sweep = Sweep(app.store.wake, app.outbox, app.question_updates, app.quarantine, role="relay")
        await sweep.find()
        channels = ",".join(sorted(app.outbox.channels))
        assert 0 < await app.store.wake.sweep_turn(f"{SCHEMA}/relay/{channels}", SWEEP_SECONDS) <= SWEEP_SECONDS
        assert await app.store.wake.sweep_turn(f"{SCHEMA - 1}/relay/{channels}", SWEEP_SECONDS) == 0


async def test_a_relay_goes_on_beside_a_session_that_cannot_be_worked(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        await accepted(owner, "d1")
        await accepted(owner, "d1", owner.address)
        for home in (SIDE, owner.address):
            sid = owner.app.session_id(home)
            await owner.app.store.outbox.put(sid, NewDelivery("k", str(home), "the tide turns", PUBLIC, "notice", ""))
        bad = owner.app.session_id(SIDE)
        await owner.app.store._shared.connection.commands(("HSET", session_keys(bad).outbox, "broken", "x"))
        app = owner.app
        sweep = Sweep(app.store.wake, app.outbox, app.question_updates, app.quarantine, role="relay")
        relay = Relay(app.outbox, sweep, app.reloader, app.quarantine)
        await app.reloader.start(_nobody)
        serving = asyncio.create_task(relay.serve())
        await app.store._shared.connection.commands(("ZADD", "lg:ready", 1, bad))

        async def said() -> bool:
            return "the tide turns" in owner.shown

        await eventually(said)
        assert not serving.done()
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def _nobody(_line: str) -> None:
    """Tell nobody."""


async def loaded(folder: Path) -> Config:
    place = await SERVERS.place(folder / "data")
    return await asyncio.to_thread(load_config, folder / "config.yaml", place, catalogue.ARGUMENTS)


async def test_the_command_line_lists_and_lets_out_what_its_owner_is_cleared_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, owner_cleared_for("top")) as owner:
        await owner.say("hello")
        sid = await damaged(owner)
        await eventually(lambda: _is(owner, 1))
    config = await loaded(tmp_path)
    await list_sessions(config, as_json=True)
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows[sid]["status"], rows[sid]["quarantine"]["error"]) == ("unreadable", "SchemaError")
    assert rows[owner.sid]["quarantine"] is None
    await list_sessions(config, as_json=False)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if sid in line]
    assert "unreadable, quarantined" in row
    assert await doctor(config, as_json=False) == 2
    found = capsys.readouterr().out
    assert f"`lockgate sessions release {sid}`" in found
    assert "its records cannot be read" in found
    assert UNREADABLE in found
    # Let out, it would be in order for `doctor` until somebody tries it again.
    with pytest.raises(OperatorError, match="still cannot be read") as refused:
        await release_session(config, sid)
    assert refused.value.next_step == UNREADABLE
    assert await doctor(config, as_json=False) == 2
    async with running(tmp_path, owner_cleared_for("top"), serve=False) as owner:
        await put(owner, "taint", "PUBLIC")
    capsys.readouterr()
    await release_session(config, sid)
    assert capsys.readouterr().out == f"{sid} is tried again\n"
    with pytest.raises(OperatorError, match="no such session"):
        await release_session(config, sid)


async def test_an_owner_who_is_not_cleared_for_everything_is_told_nothing_of_what_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, owner_cleared_for("INTERNAL")) as owner:
        sid = await damaged(owner)
        await eventually(lambda: _is(owner, 1))
    config = await loaded(tmp_path)
    await list_sessions(config, as_json=True)
    await doctor(config, as_json=True)
    shown = capsys.readouterr().out
    assert sid not in shown
    assert "SchemaError" not in shown
    refusals = list[str]()
    for name in (sid, "no such session at all"):
        with pytest.raises(OperatorError) as refused:
            await release_session(config, name)
        refusals.append(f"{refused.value}, {refused.value.next_step}")
    assert refusals[0] == refusals[1]


async def test_a_session_above_the_owner_that_can_be_read_is_not_theirs_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path, owner_cleared_for("INTERNAL"), serve=False) as owner:
        sid = await accepted(owner, "d1")
        await put(owner, "taint", str(parse("CONFIDENTIAL")))
        await owner.app.quarantine.put(sid, Doing.WORK, SchemaError("x"))
    config = await loaded(tmp_path)
    await list_sessions(config, as_json=True)
    await doctor(config, as_json=True)
    assert sid not in capsys.readouterr().out
    with pytest.raises(OperatorError):
        await release_session(config, sid)


async def test_a_tool_that_fails_puts_no_session_apart(tmp_path: Path) -> None:
    async def fails(_arguments: TextArguments, _scene: object) -> None:
        raise KeyError("x")

    probe = Probe("probe")
    probe.does = fails  # pyright: ignore[reportAttributeAccessIssue] - it never returns
    async with running(tmp_path, parts=parts(probe)) as owner:
        await owner.say('!probe {"text": "x"}')
        assert await apart(owner) == ()


async def test_sessions_are_listed_in_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(tmp_path, owner_cleared_for("top"), serve=False) as owner:
        threads = [replace(owner, address=replace(owner.address, thread=str(number))) for number in range(5)]
        for one in threads:
            await one.send("hello")
        connection = owner.app.store._shared.connection  # pyright: ignore[reportPrivateUsage]
        await connection.commands(*(("ZADD", RECENT, place, one.sid) for place, one in enumerate(threads)))
    newest_first = [one.sid for one in reversed(threads)]
    config = await loaded(tmp_path)
    found, after = list[str](), ""
    while True:
        await list_sessions(config, as_json=True, after=after, limit=2)
        page = [row["id"] for row in json.loads(capsys.readouterr().out)]
        if not page:
            break
        found, after = found + page, page[-1]
    assert found == newest_first
    await list_sessions(config, as_json=False, limit=2)
    assert f"there are more: `lockgate sessions list --after {newest_first[1]}`" in capsys.readouterr().out
    with pytest.raises(OperatorError, match="no such session"):
        await list_sessions(config, as_json=True, after="nobody's")
