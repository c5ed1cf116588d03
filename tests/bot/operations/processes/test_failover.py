"""What follows when another server takes over: inputs and denials come back, and each loss is told once."""

import logging
from pathlib import Path

import pytest

from bot.operations.processes.failover import ACCEPTED_AGAIN, LOST, RIGHTS, FailoverWatch
from bot.policy_state import Changing
from bot.sessions.installation.losses import LOG_TRUNCATED
from bot.store.schema import AUDIT, AUDIT_CHAIN, AUDIT_HEAD, OVERRIDES, POLICY, TOKENS
from policy.document.overrides import AccessChange
from tests.harness import Person, running
from tests.store.world import earlier, parcel, remembered

pytestmark = pytest.mark.anyio

STRANGER = "chat:stranger"


class Watch(FailoverWatch):
    """Looks as if another server had just taken over."""

    async def after_a_failover(self) -> None:
        self._compare = True
        await self.look()
        await self.look()


async def watching(owner: Person) -> Watch:
    """Return a watch over the application's store that knows its servers."""
    watch = Watch(owner.app.store, owner.app.reloader)
    await watch.look()
    return watch


def causes(owner: Person) -> set[str]:
    return {one.cause for one in owner.app.failures.newest()}


async def test_a_lost_conversation_is_told_and_its_message_is_worked_again(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        with owner.app.failures.listening():
            watch = await watching(owner)
            await owner.say("first")
            back = await remembered(owner.app.store, owner.sid)
            await owner.say("second")
            await back()
            await watch.after_a_failover()
            await owner.settled()
            assert owner.shown.count("You said: second") == 2
            assert causes(owner) == {f"{LOG_TRUNCATED}: the newest events of a session were lost"}
            before = len(owner.app.failures.newest())
            await watch.after_a_failover()
            assert len(owner.app.failures.newest()) == before


async def test_a_lost_message_between_sessions_is_taken_again(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        watch, store = await watching(owner), owner.app.store
        await owner.send("first")
        back = await remembered(store, owner.sid)
        await store.delegation.receive(sent := parcel(owner.sid))
        await back()
        assert await store.sessions.outcome(owner.sid, sent.dedupe) is None
        await watch.after_a_failover()
        assert [one.dedupe for one in await store.sessions.waiting(owner.sid)][1:] == [sent.dedupe]


async def test_a_lost_deletion_is_repeated(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        watch = await watching(owner)
        await owner.say("first")
        sid, store = owner.sid, owner.app.store
        back = await remembered(store, sid)
        await store.lifecycle.delete(sid, ())
        await back()
        assert await store.sessions.state(sid) is not None
        await watch.after_a_failover()
        assert await store.sessions.state(sid) is None
        assert (await store.audit.records(sid))[-1].body == {"deleted": True}


async def test_a_session_that_is_gone_stands_in_the_audit(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        with owner.app.failures.listening():
            watch, store = await watching(owner), owner.app.store
            back = await remembered(store, owner.sid)
            await owner.say("first")
            await back()
            await watch.after_a_failover()
            (row,) = [one for one in await store.audit.records(AUDIT) if one.kind == LOG_TRUNCATED]
            assert row.body["session"] == owner.sid
            assert causes(owner) == {f"{LOG_TRUNCATED}: a session was lost"}
            await owner.settled()
            assert owner.shown.count("You said: first") == 2


async def test_denials_that_the_store_lost_are_put_back(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        with owner.app.failures.listening():
            watch, store = await watching(owner), owner.app.store
            back = await earlier(store, OVERRIDES, TOKENS, POLICY, AUDIT_CHAIN, AUDIT_HEAD)
            await owner.app.reloader.change(lambda _: Changing(AccessChange(accounts={STRANGER: True}), ()))
            await back()
            assert (await store.access.overrides())[1].blocked == frozenset()
            await watch.after_a_failover()
            assert (await store.access.overrides())[1].blocked == {STRANGER}
            assert RIGHTS in causes(owner)
            rows = [one.body for one in await store.audit.records(AUDIT) if one.kind == "access"]
            assert rows[-1]["what"] == LOG_TRUNCATED
            assert "You said: still here" in await owner.say("still here")


async def test_what_nobody_lost_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as owner:
        watch = await watching(owner)
        await owner.app.reloader.change(lambda _: Changing(AccessChange(accounts={STRANGER: True}), ()))
        await owner.say("first")
        with caplog.at_level(logging.WARNING):
            await watch.after_a_failover()
        assert not {LOST, ACCEPTED_AGAIN} & {record.message for record in caplog.records}
        assert owner.shown.count("You said: first") == 1


async def test_losses_are_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        watch, counted = await watching(owner), list[object]()
        watch.also(counted.append)
        await owner.say("first")
        back = await remembered(owner.app.store, owner.sid)
        await owner.say("second")
        await back()
        await watch.after_a_failover()
        assert len(counted) == 1
