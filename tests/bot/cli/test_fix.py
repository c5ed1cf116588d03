"""`lockgate doctor --fix`: it mends what is safe, says what it did, and leaves the rest."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bot.access.pairing import ASK_OWNER
from tests.journeys.machine import Machine, policy
from tests.servers import SERVERS
from tests.sim.ports import free_port
from tests.sim.telegram import telegram
from tests.sim.telegram_state import Webhook

pytestmark = pytest.mark.anyio


def test_modes_and_a_missing_folder_are_mended_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "token").write_text("tok-4711-and-more")
    (tmp_path / "token").chmod(0o644)
    (tmp_path / "config.yaml").write_text("data_dir: deep/data\nsecrets: {token: {file: token}}\n")
    ended = machine.run("doctor", "--fix")
    assert ended.code == 0, ended
    assert f"fixed data directory: made {tmp_path / 'deep/data'}\n" in ended.out
    assert f"fixed file modes: `chmod 600 {tmp_path / 'token'}`\n" in ended.out
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    (tmp_path / "deep/data").chmod(0o775)
    told = json.loads(machine.run("doctor", "--fix", "--json").out)
    assert [one["fixed"] for one in told if "fixed" in one] == [f"`chmod 700 {tmp_path / 'deep/data'}`"]
    again = machine.run("doctor", "--fix")
    assert "fixed" not in again.out
    assert "4711" not in again.out


def test_no_link_is_followed_when_modes_are_mended(tmp_path: Path) -> None:
    machine, keys, other = Machine(tmp_path), tmp_path / ".bot/keys", tmp_path / "other"
    keys.mkdir(mode=0o700, parents=True)
    machine.data.chmod(0o700)
    other.mkdir()
    (other / "page").write_text("for everybody")
    for path, mode in ((other, 0o755), (other / "page", 0o644)):
        path.chmod(mode)
    (keys / "page").symlink_to(other / "page")
    ended = machine.run("doctor", "--fix")
    assert f"others may use `{keys / 'page'}`" in machine.run("doctor", "--probe").out
    assert "fixed" not in ended.out
    keys.rename(tmp_path / "away")
    keys.symlink_to(other)
    assert "fixed" not in machine.run("doctor", "--fix").out
    assert [path.stat().st_mode & 0o777 for path in (other, other / "page")] == [0o755, 0o644]


def test_nothing_is_mended_unless_it_is_asked_for(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.data.mkdir(mode=0o700)
    machine.data.chmod(0o777)
    ended = machine.run("doctor", "--probe")
    assert ended.code == 2
    assert machine.data.stat().st_mode & 0o777 == 0o777


async def _fixed(folder: Path, server: Any, **environment: str) -> tuple[int, str]:  # noqa: ANN401 - of a simulator
    said = policy("telegram", "telegram:1", {})
    text = {"channels": {"telegram": {"base_url": f"http://127.0.0.1:{server.port}"}}, "policy": said}
    (folder / "config.yaml").write_text(json.dumps(text))
    place = {"LOCKGATE_STORE_URL": await SERVERS.at(folder), "TELEGRAM_TOKEN": server.token, **environment}
    ended = await asyncio.to_thread(lambda: Machine(folder).run("doctor", "--fix", **place))
    assert server.token not in ended.out + ended.err
    return ended.code, ended.out


async def test_a_webhook_of_another_program_goes_only_if_it_fails(tmp_path: Path) -> None:
    async with telegram() as server:
        server.state.webhook = Webhook("https://elsewhere.example/")
        code, out = await _fixed(tmp_path, server)
        assert (code, "fixed channel" in out) == (2, False)
        assert server.state.webhook.url
        # Nothing listens there, and something waits.
        server.state.webhook.url = "http://127.0.0.1:9/"
        server.user("Ann").says(None, "hello")
        server.state.wake()
        await server.until(lambda: bool(server.state.webhook.error), 20)
        code, out = await _fixed(tmp_path, server)
        assert "fixed channel telegram: deleted a webhook of another program that Telegram could not reach" in out
        assert (code, server.state.webhook.url) == (0, "")
        _, out = await _fixed(tmp_path, server)
        assert "fixed" not in out


async def test_a_webhook_that_the_bot_set_itself_is_taken_off(tmp_path: Path) -> None:
    """One that was killed leaves it, and the bot is to poll from now on."""
    async with telegram() as server:
        url = "https://bot.example/hook"
        hooked = {"webhook": {"url": url, "port": free_port()}, "base_url": f"http://127.0.0.1:{server.port}"}
        place = {"LOCKGATE_STORE_URL": await SERVERS.at(tmp_path), "TELEGRAM_TOKEN": server.token}
        config = {"channels": {"telegram": hooked}, "policy": policy("telegram", "telegram:1", {})}
        (tmp_path / "config.yaml").write_text(json.dumps(config))
        machine = Machine(tmp_path)
        process = await asyncio.to_thread(lambda: machine.start("run", **place, TELEGRAM_SECRET="s" * 16))
        await server.until(lambda: server.state.webhook.url == url, 60)
        process.kill()
        await asyncio.to_thread(process.communicate, timeout=60)
        out = ""
        for _ in range(30):
            # The right of the process that was killed lasts for a while.
            _, out = await _fixed(tmp_path, server)
            if not server.state.webhook.url:
                break
        assert "fixed channel telegram: deleted the webhook that this bot had set" in out
        assert server.state.webhook.url == ""


async def test_a_probe_leaves_the_polls_of_its_own_installation_alone(tmp_path: Path) -> None:
    async with telegram() as server:
        text = {
            "channels": {"telegram": {"base_url": f"http://127.0.0.1:{server.port}"}},
            "policy": policy("telegram", "telegram:1", {}),
        }
        place = {"LOCKGATE_STORE_URL": await SERVERS.at(tmp_path), "TELEGRAM_TOKEN": server.token}
        machine = Machine(tmp_path)
        # The first poll is answered at once, and the bot listens.
        server.user("Zoe").says(None, "hello")

        async def probed() -> str:
            ended = await asyncio.to_thread(lambda: machine.run("doctor", "--probe", **place))
            return ended.out

        async with machine.listening(json.dumps(text), place):
            await server.until(lambda: bool(server.asked("getUpdates")), 60)
            out = await probed()
            assert "polls for this bot" not in out
            assert {one["timeout"] for one in server.asked("getUpdates")} == {"30"}
        before = len(server.asked("getUpdates"))
        out = await probed()
        asked = server.asked("getUpdates")[before:]
        assert len(asked) == 1
        assert "offset" not in asked[0]
        assert "polls for this bot" not in out


async def test_a_strangers_account_is_shown_in_the_audit(tmp_path: Path) -> None:
    async with telegram() as server:
        eve = server.user("Eve")
        text = {
            "channels": {"telegram": {"base_url": f"http://127.0.0.1:{server.port}"}},
            "policy": {**policy("telegram", "telegram:1", {}), "paired": None},
        }
        place = {"LOCKGATE_STORE_URL": await SERVERS.at(tmp_path), "TELEGRAM_TOKEN": server.token}
        machine = Machine(tmp_path)
        async with machine.listening(json.dumps(text), place):
            eve.says(None, "/start")
            await server.until(lambda: bool(eve.private.said), 60)
            eve.says(None, "/help")
            eve.says(None, "hello?")
            ended = await asyncio.to_thread(lambda: machine.run("audit", "tail", **place))
        account = f"telegram:{eve.id}"
        assert eve.private.said == [ASK_OWNER.format(account=account)]
        (row, *_) = [line for line in ended.out.splitlines() if " refused " in line]
        assert account in row
