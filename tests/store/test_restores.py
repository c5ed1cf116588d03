"""A restore that is refused or fails costs nothing, and denials since the backup stay in force."""

# pyright: reportPrivateUsage=false

import asyncio
from pathlib import Path

import pytest

from bot.audit.anchors import AnchoredChains
from bot.audit.keys import RETIRED
from bot.config.load import load_config
from bot.config.model import Config
from bot.core.errors import DiskError, OperatorError
from bot.operations.backups.archive import ArchiveReader
from bot.operations.backups.backup import BackupMaker, secret_files
from bot.operations.backups.folders import STAGE, ReturnedFiles
from bot.operations.backups.labelled import ReturnedLabels
from bot.operations.backups.restore import BackupRestorer, RestoredBackup, check
from bot.sessions.api_tokens import NewSecret
from bot.sessions.audit import AuditRow
from bot.store.backup.backups import RedisBackups
from bot.store.opening import open_store
from bot.store.redis_store import RedisStore
from bot.store.schema import AUDIT, RESTORING
from policy.document.overrides import AccessChange, ChatPlace, Placing
from tests.store.test_tokens import ROW, new
from tests.store.world import KEY, command, row

pytestmark = [pytest.mark.anyio, pytest.mark.one_server("a restore is the same everywhere")]

CHAT = ChatPlace("slack", "T1", "C1")


class JoinedBackups(RedisBackups):
    """A store that another process joins after the first look at it, and leaves after the second."""

    url = ""

    async def begin(self) -> bool:
        """Open it once more, write something, and go on."""
        other = await open_store(audit_key=KEY, url=self.url)
        await other.audit.append((AuditRow("later", "ann", {}),))
        return await super().begin()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """An installation whose data directory holds a file."""
    data = tmp_path / "installation"
    (data / "files").mkdir(mode=0o700, parents=True)
    (data / "files" / "note").write_text("old")
    return load_config(None, {"LOCKGATE_DATA_DIR": str(data)}, ())


async def made(store: RedisStore, config: Config, file: Path) -> Path:
    await BackupMaker(store, config, key=KEY, names={}, bucket=None).make(file, "ann", "")
    return file


async def restored(store: RedisStore, config: Config, file: Path, *, replaces: bool = True) -> RestoredBackup:
    chains = AnchoredChains(store.audit, config.data_dir / "anchors", KEY)
    with await asyncio.to_thread(ArchiveReader, file, (KEY,)) as reader:
        backup = await asyncio.to_thread(check, reader, {})
        files = ReturnedFiles(config.data_dir, ())
        labelled = ReturnedLabels(files.stage, None, lambda: config.policy.top)
        restorer = BackupRestorer(store, chains, files, labelled, earlier={})
        return await restorer.restore(reader, backup, "ann", replaces=replaces)


@pytest.mark.parametrize("replaces", [True, False])
async def test_a_process_that_comes_meanwhile_keeps_its_records(
    own: RedisStore, own_url: str, config: Config, tmp_path: Path, *, replaces: bool
) -> None:
    file = await made(own, config, tmp_path / "one.backup")
    if not replaces:
        await own.backups.clear()
        await asyncio.to_thread((config.data_dir / "files").rename, tmp_path / "away")
    own.backups = JoinedBackups(own.backups._shared, own.backups._filing)
    own.backups.url = own_url
    with pytest.raises(OperatorError, match="other processes use the store"):
        await restored(own, config, file, replaces=replaces)
    assert "later" in [one.kind for one in await own.audit.records(AUDIT)]
    assert await command(own, "EXISTS", RESTORING) == 0
    assert not await asyncio.to_thread((config.data_dir / STAGE).exists)


async def test_files_that_cannot_be_put_back_cost_nothing_of_the_store(
    own: RedisStore, config: Config, tmp_path: Path
) -> None:
    file = await made(own, config, tmp_path / "one.backup")
    await own.audit.append((AuditRow("later", "ann", {}),))
    await asyncio.to_thread((config.data_dir / STAGE).write_text, "no folder can be made here")
    # The mark of an earlier restore that was killed stays too.
    await command(own, "SET", RESTORING, "p-gone")
    with pytest.raises(DiskError, match="cannot be written"):
        await restored(own, config, file)
    assert "later" in [one.kind for one in await own.audit.records(AUDIT)]
    assert await command(own, "GET", RESTORING) == b"p-gone"


async def test_no_token_or_account_that_was_denied_since_comes_back_to_life(
    own: RedisStore, config: Config, tmp_path: Path
) -> None:
    for name in ("kept", "revoked", "rotated"):
        await own.tokens.create(new(name), ROW)
    file = await made(own, config, tmp_path / "one.backup")
    await own.tokens.revoke("revoked", ROW)
    await own.tokens.rotate("rotated", NewSecret("i-2", "d-2", 0), ROW)
    known, _ = await own.access.overrides()
    change = AccessChange(places={CHAT: Placing(blocked=True)}, accounts={"slack:T1:U1": True})
    assert await own.access.override(change, known, (row(),)) is not None
    done = await restored(own, config, file)
    assert done.denied == 4
    live = [one.name for one in await own.tokens.tokens() if not one.revoked]
    assert live == ["kept"]
    _, overrides = await own.access.overrides()
    assert overrides.blocked == {"slack:T1:U1"}
    assert overrides.places[CHAT].blocked
    told = [one.body for one in await own.audit.records(AUDIT) if one.kind in {"token", "access", "restored"}]
    assert [one.get("program") or one.get("what") or one.get("denied") for one in told[-4:]] == [
        "revoked",
        "rotated",
        "restored",
        4,
    ]


async def test_names_of_retired_keys_may_be_there_before(own: RedisStore, config: Config, tmp_path: Path) -> None:
    file = await made(own, config, tmp_path / "one.backup")
    await own.backups.clear()
    await asyncio.to_thread((config.data_dir / "files").rename, config.data_dir / RETIRED)
    done = await restored(own, config, file, replaces=False)
    assert done.aside
    assert await asyncio.to_thread((config.data_dir / done.aside / RETIRED / "note").is_file)


async def test_a_backup_is_not_written_where_it_would_hold_itself(own: RedisStore, config: Config) -> None:
    link = config.data_dir.parent / "link"
    await asyncio.to_thread(link.symlink_to, config.data_dir)
    for place in (config.data_dir / "files", link):
        with pytest.raises(OperatorError, match="is in the data directory"):
            await made(own, config, place / "one.backup")


def test_a_secret_is_found_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "real" / "forum.txt").write_text("a-long-secret")
    (tmp_path / "data").symlink_to(tmp_path / "real")
    file = tmp_path / "config.yaml"
    file.write_text(f"data_dir: {tmp_path}/data\nsecrets: {{forum: {{file: {tmp_path}/real/forum.txt}}}}\n")
    config = load_config(file, {}, ())
    assert [path.name for path in secret_files(config)] == ["forum.txt"]
