"""Two machines of one installation: two data directories, one store, and what each learns of the other."""

import asyncio
import logging
import os
import platform
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import anyio
import pytest

from bot.api.mcp_server.kept_taints import KeptTaints, TaintKey
from bot.app.app import App
from bot.app.opening import open_app
from bot.app.plugins import find_plugin
from bot.audit.chain import Broken, Intact
from bot.cli.operating.keys import key_adopter
from bot.config.load import load_config
from bot.core.errors import OperatorError, OtherKeysError, StoreError
from bot.core.ids import key_name, new_key
from bot.core.keys import FOLLOWED_MS
from bot.ingress.flood_limits import FLOODED
from bot.ingress.router import Routed
from bot.operations.processes.shared_keys import AGAIN
from bot.sessions.audit import AuditRow
from bot.sessions.installation.keys import KeyUse
from bot.store.schema import AUDIT_CHAIN, AUDIT_HEAD
from bot.tools import catalogue
from channels.console import Console
from channels.messages import Address, Inbound
from channels.port import Reader, VaultError
from channels.telegram.readers import SeenReaders
from channels.telegram.updates import Presence
from tests.bot.kit import CONFIDENTIAL, eventually, policy
from tests.people import principal
from tests.servers import SERVERS
from tests.store.world import command, fresh

pytestmark = pytest.mark.anyio


ROTATES = """
import asyncio, os, sys
from pathlib import Path
from bot.__main__ import run
from bot.cli.groups.options import config_at
from bot.cli.identity import as_owner

async def rotate():
    async with as_owner(config_at(Path(sys.argv[1]))) as (app, caller):
        print("open", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await app.key_keeper().rotate(caller.principal)

sys.exit(run([], command=lambda _: asyncio.run(rotate())))
"""
"""As `lockgate keys rotate audit`, which waits for a line once it is open."""


@dataclass
class Place:
    """A machine: its folder with its data directory, and the store of the installation."""

    folder: Path
    url: str
    config: str = "{}\n"
    told: list[str] = field(default_factory=list[str])

    @property
    def data(self) -> Path:
        return self.folder / "data"

    async def tell(self, line: str) -> None:
        self.told.append(line)

    @asynccontextmanager
    async def opened(self, *, with_any_keys: bool = False) -> AsyncGenerator[App]:
        """Open the application there, which compares its keys every 50 ms while it is open."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "config.yaml").write_text(self.config)
        place = {"LOCKGATE_DATA_DIR": str(self.data), "LOCKGATE_STORE_URL": self.url}
        path = self.folder / "config.yaml"
        config = await asyncio.to_thread(load_config, path, place, catalogue.ARGUMENTS, find_plugin)
        async with (
            open_app(config, [Console(StringIO())], {}, with_any_keys=with_any_keys) as app,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(app.shared_keys.follow, self.tell, 0.05)
            yield app
            tasks.cancel_scope.cancel()

    def takes(self, other: "Place", *names: str) -> None:
        """Copy files of another machine's data directory, as an operator does."""
        for name in names:
            (self.data / name).mkdir(parents=True, exist_ok=True)
            shutil.copytree(other.data / name, self.data / name, dirs_exist_ok=True)

    async def heard(self, line: str) -> None:
        """Wait until the process told a line."""

        async def told() -> bool:
            return any(line in one for one in self.told)

        await eventually(told)


@pytest.fixture
async def places(tmp_path: Path) -> tuple[Place, Place]:
    """Return two machines on one store."""
    url = await SERVERS.at(tmp_path)
    return Place(tmp_path / "here", url), Place(tmp_path / "there", url)


def message(text: str, account: str = "console:owner") -> Inbound:
    return Inbound(Address("console", account.partition(":")[2]), account, text, fresh())


async def test_a_machine_with_other_keys_does_not_start(places: tuple[Place, Place]) -> None:
    here, there = places
    async with here.opened():
        with pytest.raises(OtherKeysError) as raised:
            async with there.opened():
                pass
        assert "the audit key `" in str(raised.value)
        assert "keys adopt" in raised.value.next_step
        there.takes(here, "keys")
        async with there.opened() as app:
            assert app.shared_keys.problem is None


@pytest.mark.parametrize("use", list(KeyUse))
async def test_each_key_is_compared(places: tuple[Place, Place], use: KeyUse) -> None:
    here, there = places
    async with here.opened():
        there.takes(here, "keys")
        (there.data / "keys" / use.value).write_bytes(new_key())
        with pytest.raises(OtherKeysError, match=f"the {use.value} key `"):
            async with there.opened():
                pass


async def test_the_store_has_names_of_keys_and_no_key(places: tuple[Place, Place]) -> None:
    here, _ = places
    async with here.opened() as app:
        keys = [(here.data / "keys" / use.value).read_bytes() for use in KeyUse]
        known = await app.store.installation_keys.read()
        assert known is not None
        assert [known.of(use) for use in KeyUse] == [(key_name(key),) for key in keys]
        stored = await command(app.store, "GET", "lg:{audit}:keys")
        assert not any(key in stored or key.hex().encode() in stored for key in keys)


@pytest.mark.parametrize("use", ["audit", "session"])
async def test_a_rotation_elsewhere_stops_a_process_until_it_has_the_key(
    places: tuple[Place, Place], caplog: pytest.LogCaptureFixture, use: str
) -> None:
    here, there = places
    async with here.opened() as one:
        there.takes(here, "keys")
        async with there.opened() as two:
            await two.reloader.start(there.tell)
            assert await two.reloader.current()
            keeper = one.key_keeper()
            made = await (keeper.rotate if use == "audit" else keeper.rotate_session)("owner")
            await there.heard("this process stopped serving")
            warned = [one.__dict__ for one in caplog.records if one.levelno == logging.WARNING]
            assert [made.name in one["cause"] for one in warned if one.get("subject") == "keys"] == [True]
            assert made.name in there.told[0]
            assert "copy the files of `keys`" in there.told[1]
            # It takes nothing in, and signs nothing with the old key.
            assert not await two.reloader.current()
            told = await two.router.take(message("hello"))
            assert told.outcome is Routed.ANSWERED
            with pytest.raises(StoreError):
                await two.store.audit.append((AuditRow("x", "y", {}),))
            missing = await two.readiness.look("worker", listens=False, works=False)
            assert [one.subject for one in missing.missing] == ["keys"]
            there.takes(here, "keys")
            await there.heard(AGAIN)
            assert await two.reloader.current()
            await two.store.audit.append((AuditRow("x", "y", {}),))
            assert isinstance(await one.chains.verify("audit"), Intact)
            assert isinstance(await two.chains.verify("audit"), Intact)
        assert not here.told


async def test_two_machines_that_change_keys_at_once_lose_none(places: tuple[Place, Place]) -> None:
    here, there = places
    async with here.opened():
        there.takes(here, "keys")
    async with there.opened():
        pass
    before = (here.data / "keys" / "audit").read_bytes()

    async def opened(place: Place) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ROTATES, str(place.folder / "config.yaml")),
            cwd=Path(__file__).parents[3],
            env={**os.environ, "LOCKGATE_DATA_DIR": str(place.data), "LOCKGATE_STORE_URL": place.url},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )

    processes = [await opened(place) for place in places]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"open\n"
    # Both have compared their keys by now.
    told = await asyncio.gather(*(process.communicate(b"\n") for process in processes))
    done = [place for place, process in zip(places, processes, strict=True) if process.returncode == 0]
    assert len(done) == 1, told
    refused = next(place for place in places if place not in done)
    # No key was made there that the installation does not know, and that copying the keys would lose.
    assert (refused.data / "keys" / "audit").read_bytes() == before
    (_, said) = told[places.index(refused)]
    assert b"of this installation is not here" in said
    refused.takes(done[0], "keys")
    async with here.opened() as one, there.opened() as two:
        assert one.chains.keys.all == two.chains.keys.all
        assert isinstance(await one.chains.verify("audit"), Intact)
        assert isinstance(await two.chains.verify("audit"), Intact)


async def test_keys_are_looked_for_where_people_find_them(places: tuple[Place, Place]) -> None:
    here, there = places
    async with here.opened():
        pass
    with pytest.raises(OtherKeysError) as other:
        async with there.opened():
            pass
    assert f"copy the files of `keys` from `{here.data}` on {platform.node()}" in other.value.next_step


async def test_a_retired_key_is_refused_where_its_heads_are_not_known(places: tuple[Place, Place]) -> None:
    here, there = places
    async with here.opened() as one:
        old = key_name(one.chains.keys.current)
        await one.key_keeper().rotate("owner")
        long_ago = (one.clock.wall_ms() - FOLLOWED_MS) * 10**6
        await asyncio.to_thread(os.utime, here.data / "keys/audit", ns=(long_ago, long_ago))
        await one.key_keeper().retire("owner")
        there.takes(here, "keys")
        with pytest.raises(OtherKeysError, match=f"the audit key `{old}` was retired") as raised:
            async with there.opened():
                pass
        assert f"copy `retired-keys/{old}`" in raised.value.next_step
        there.takes(here, "retired-keys")
        async with there.opened() as two:
            assert isinstance(await two.chains.verify("audit"), Intact)


async def test_keys_are_adopted_once_the_others_are_lost(places: tuple[Place, Place]) -> None:
    here, there = places
    async with here.opened():
        pass
    async with there.opened(with_any_keys=True) as app:
        adopted = await key_adopter(app).adopt("owner")
        assert adopted.keys.audit == (key_name((there.data / "keys/audit").read_bytes()),)
        (row,) = [one async for one in app.chains.records("audit") if one.kind == "key"]
        assert row.body["change"] == "adopt"
    with pytest.raises(OtherKeysError):
        async with here.opened():
            pass
    async with there.opened():
        pass


async def test_keys_that_other_processes_have_are_not_taken_for_lost(places: tuple[Place, Place]) -> None:
    """One command on a machine with keys of its own would stop all others, and break the chain `audit` for ever."""
    here, there = places
    async with here.opened() as one:
        known = await one.store.installation_keys.read()
        async with there.opened(with_any_keys=True) as app:
            with pytest.raises(OperatorError, match="other processes use the store") as raised:
                await key_adopter(app).adopt("owner")
            assert "copy `keys`" in raised.value.next_step
        assert await one.store.installation_keys.read() == known
        assert isinstance(await one.chains.verify("audit"), Intact)


async def test_a_lost_vault_key_stops_no_group_and_ends_every_vouching(places: tuple[Place, Place]) -> None:
    here, there = places
    crew = {"channel": "telegram", "chat": "-7", "classification": "INTERNAL", "members_vouched": True}
    channels = {"console": {"classification": "top"}, "telegram": {"classification": "INTERNAL"}}
    here.config = there.config = policy(
        principals={"owner": principal("console:owner")}, channels=channels, chats={"crew": crew}, recipients={}
    )
    met = Presence("-7", (Reader("telegram:1"),))
    async with here.opened() as app:
        await SeenReaders(app.vault(), "7").note(met)
        await app.vault().put("telegram/7/moved/-1007", b"-7")
    there.takes(here, "keys")
    (there.data / "keys/vault").write_bytes(new_key())
    async with there.opened(with_any_keys=True) as app:
        await app.vault().put("kept", b"of this key")
        with pytest.raises(VaultError):
            await SeenReaders(app.vault(), "7").note(met)
        adopted = await key_adopter(app).adopt("owner")
        assert (adopted.lost, adopted.unvouched) == (2, ("telegram:-7",))
        # An account that was seen there may read along, and nobody knows of it any more.
        (chat,) = app.gate.document.chats.values()
        assert not chat.members_vouched
        await SeenReaders(app.vault(), "7").note(met)
        assert await app.vault().get("kept") == b"of this key"
        assert await app.vault().get("telegram/7/moved/-1007") is None
        rows = [row async for row in app.chains.records("audit") if row.kind == "classify"]
        assert [dict(row.body) for row in rows] == [{"chat": "telegram:-7", "vouched": False}]
        assert (await key_adopter(app).adopt("owner")).lost == 0


async def test_a_connection_whose_taint_is_lost_with_a_key_is_at_the_top(places: tuple[Place, Place]) -> None:
    """Its client's model still knows what it read."""
    here, there = places
    one, two = TaintKey("token", "a"), TaintKey("other token", "b")
    async with here.opened() as app:
        taints = KeptTaints(app.vault())
        await taints.keep(one, CONFIDENTIAL)
        await taints.keep(two, CONFIDENTIAL)
        await taints.lost(two)
    there.takes(here, "keys")
    (there.data / "keys/vault").write_bytes(new_key())
    async with there.opened(with_any_keys=True) as app:
        assert (await key_adopter(app).adopt("owner")).lost == 3
        taints, top = KeptTaints(app.vault()), app.gate.document.top
        assert await taints.inherited(two) == top
        await taints.lost(one)
        assert await taints.inherited(one) == top


async def test_a_process_that_has_a_newer_key_brings_it(places: tuple[Place, Place]) -> None:
    """As after a restart with another key in the environment."""
    here, there = places
    async with here.opened() as one:
        there.takes(here, "keys")
        for name in ("audit", "session", "vault"):
            path = there.data / "keys" / name
            shutil.copy(path, there.data / "keys" / f"{name}.old")
            path.write_bytes(new_key())
        async with there.opened() as two:
            known = await two.store.installation_keys.read()
            assert known is not None
            assert (len(known.audit), len(known.session)) == (2, 2)
            await here.heard("this process stopped serving")
            assert one.shared_keys.problem is not None


async def test_each_machine_anchors_all_chains_and_finds_one_that_was_cut(places: tuple[Place, Place]) -> None:
    here, there = places
    async with here.opened() as one:
        there.takes(here, "keys")
        async with there.opened() as two:
            for _ in range(5):
                await one.store.audit.append((AuditRow("x", "y", {}),))
            await one.chains.anchor()
            # A machine that never saw it says so, and that is no error.
            checked = await two.audit.checked(None)
            assert (checked.broken, checked.unanchored) == ({}, 1)
            with_theirs = await two.audit.checked(None, (here.data / "anchors",))
            assert (with_theirs.broken, with_theirs.unanchored) == ({}, 0)
            head, _ = await one.store.audit.head("audit")
            last = (await one.store.audit.records("audit", after=head - 1))[-1]
            await command(one.store, "LTRIM", AUDIT_CHAIN, 0, -2)
            await command(one.store, "HSET", AUDIT_HEAD, "an", last.n - 1, "ah", last.previous)
            cut = Broken(head, f"the chain ends at {head - 1}, but {head} records were anchored")
            assert (await one.audit.checked(None)).broken == {"audit": cut}
            assert (await two.audit.checked(None)).broken == {}
            assert (await two.audit.checked(None, (here.data / "anchors",))).broken == {"audit": cut}


async def test_a_walk_anchors_what_another_machine_wrote(places: tuple[Place, Place]) -> None:
    here, there = places
    async with here.opened() as one:
        there.takes(here, "keys")
        async with there.opened() as two:
            await one.store.audit.append((AuditRow("x", "y", {}),))
            head = await one.store.audit.head("audit")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(two.chains.walking, 0.02)

                async def anchored() -> bool:
                    return (await two.chains.anchored()).get("audit") == head

                await eventually(anchored)
                tasks.cancel_scope.cancel()
            assert not (await two.audit.checked(None)).unanchored


async def test_a_person_is_counted_on_both_machines_and_told_once(places: tuple[Place, Place]) -> None:
    here, there = places
    people = {"owner": principal("console:owner"), "mel": principal("console:mel", role="member")}
    config = policy(principals=people, blocks={"limits": {"person_messages_per_minute": 4}})
    here.config = there.config = config
    async with here.opened() as one:
        there.takes(here, "keys")
        async with there.opened() as two:
            apps = (one, two)
            outcomes = [
                (await apps[number % 2].router.take(message("hello", "console:mel"))).outcome for number in range(12)
            ]
            accepted = outcomes.count(Routed.ACCEPTED)
            assert 4 <= accepted <= 5, "a tenth more for a further process, one at least"
            assert outcomes[accepted:] == [Routed.REFUSED] * (12 - accepted)
            rows = [row async for row in one.chains.records("audit") if row.kind == "refused"]
            assert len(rows) == 1, FLOODED


async def test_a_process_with_other_settings_is_named(places: tuple[Place, Place]) -> None:
    here, there = places
    there.config = "limits: {inbox_items: 7}\nlogs: {level: debug}\n"
    async with here.opened() as one:
        there.takes(here, "keys")
        async with there.opened() as two, anyio.create_task_group() as tasks:
            tasks.start_soon(two.settings.serve, 0)

            async def differs() -> bool:
                return bool(await one.settings.differing())

            await eventually(differs)
            (other,) = await one.settings.differing()
            assert other.paths == ("limits.inbox_items",)
            assert other.process == f"process {os.getpid()} on {platform.node()}"
            # One whose values cannot be opened hides no other.
            await one.store.vault([new_key()]).put("processes/a", b"of another key", 60)
            assert await one.settings.differing() == (other,)
            assert await two.settings.differing() == ()
            tasks.cancel_scope.cancel()
