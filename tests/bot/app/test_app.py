"""The composition root: secrets, chains, and an application that opens and closes."""

import asyncio
from pathlib import Path

import pytest

from bot.app.keys import AUDIT_KEY_VARIABLE, SESSION_KEY_VARIABLE, VAULT_KEY_VARIABLE, Secrets
from bot.app.opening import open_app
from bot.audit.chain import AnchorFile, Broken, Head, Intact
from bot.config.load import load_config
from bot.core.errors import OperatorError, OtherKeysError
from bot.files.areas import Area
from bot.sessions.audit import AuditRow
from bot.tools import catalogue
from tests.bot.kit import HOME
from tests.harness import running

pytestmark = pytest.mark.anyio


async def test_secrets_are_made_once_and_kept(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:
        first = owner.sid
    async with running(tmp_path, serve=False) as owner:
        assert owner.sid == first
    keys = tmp_path / "data/keys"
    assert sorted(path.name for path in keys.iterdir()) == ["audit", "session", "vault"]
    assert {path.stat().st_mode & 0o777 for path in keys.iterdir()} == {0o600}


async def test_secrets_may_come_from_the_environment(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("{}\n")
    environment = {"LOCKGATE_DATA_DIR": str(tmp_path / "data")}
    config = await asyncio.to_thread(load_config, tmp_path / "config.yaml", environment, catalogue.NAMES)
    given = {AUDIT_KEY_VARIABLE: "11" * 32, SESSION_KEY_VARIABLE: "22" * 32, VAULT_KEY_VARIABLE: "44" * 32}
    async with open_app(config, [], given) as app:
        sid = app.session_id(HOME)
    assert not (tmp_path / "data/keys").exists()
    with pytest.raises(OtherKeysError):
        async with open_app(config, [], {**given, SESSION_KEY_VARIABLE: "33" * 32}):
            pass
    async with open_app(config, [], {**given, SESSION_KEY_VARIABLE: f"{'33' * 32},{'22' * 32}"}) as app:
        assert app.session_id(HOME) != sid
    with pytest.raises(OperatorError):
        Secrets.load(config, {AUDIT_KEY_VARIABLE: "short"})


def test_the_key_before_still_opens_what_is_kept(tmp_path: Path) -> None:
    """A key that was moved aside is read beside the new one; from the environment they come in one value."""
    (tmp_path / "config.yaml").write_text("{}\n")
    config = load_config(tmp_path / "config.yaml", {"LOCKGATE_DATA_DIR": str(tmp_path)}, catalogue.NAMES)
    (first,) = Secrets.load(config, {}).vault
    (tmp_path / "keys/vault").rename(tmp_path / "keys/vault.old")
    newest, before = Secrets.load(config, {}).vault
    assert before == first != newest
    assert Secrets.load(config, {VAULT_KEY_VARIABLE: f"{'11' * 32}, {'22' * 32}"}).vault == (b"\x11" * 32, b"\x22" * 32)
    with pytest.raises(OperatorError):
        Secrets.load(config, {VAULT_KEY_VARIABLE: f"{'11' * 32},"})


async def test_the_audit_of_a_conversation_is_intact_and_anchored(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        assert isinstance(await owner.app.chains.verify(owner.sid), Intact)
        await owner.app.chains.anchor()
        heads = await owner.app.chains.anchored()
        assert heads[owner.sid][0] == 3
        records = [record async for record in owner.app.chains.records(owner.sid, after=1)]
        assert [record.n for record in records] == [2, 3]


def _anchor(data: Path, chain: str, head: Head) -> None:
    AnchorFile(data / "anchors", (data / "keys/audit").read_bytes()).record({chain: head})


async def test_a_chain_that_lost_records_is_broken(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        await owner.app.chains.anchor()
        found = await owner.app.chains.verify("nobody")
        assert isinstance(found, Intact)
        await asyncio.to_thread(_anchor, tmp_path / "data", "nobody", (3, "x"))
        assert isinstance(await owner.app.chains.verify("nobody"), Broken)


async def test_a_chain_that_grows_while_it_is_checked_is_whole(tmp_path: Path) -> None:
    async with running(tmp_path, serve=False) as owner:

        async def grow() -> None:
            for n in range(100):
                await owner.app.store.audit.append((AuditRow("test", "owner", {"n": n}),))

        async with asyncio.TaskGroup() as tasks:
            growing = tasks.create_task(grow())
            while not growing.done():
                assert isinstance(await owner.app.chains.verify("audit"), Intact)


async def test_workspaces_of_sessions_that_were_deleted_elsewhere_are_erased_among_many(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        await owner.say("hello")
        sid, app = owner.sid, owner.app
        homes = tmp_path / "data" / Area.SESSIONS
        for name in (sid, *(f"s{number:04}" for number in range(450))):
            (homes / name / "1").mkdir(parents=True, exist_ok=True)
        await app.store.lifecycle.delete(sid, ())
        await app.lifecycle.clear()
        assert not (homes / sid / "1").exists()
        assert len([home for home in homes.iterdir() if (home / "1").exists()]) == 450
