"""An operator watches a real `lockgate run` over HTTP: health and metrics, with no session above their clearance."""

import asyncio
import json
import re
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import aiohttp
import pytest

from bot.telemetry.metrics import Metrics
from bot.telemetry.serving import serving
from policy.labels import PUBLIC
from tests.bot.kit import eventually
from tests.journeys.machine import Machine
from tests.journeys.test_telegram import call, config, hears
from tests.sim.ports import free_port
from tests.sim.telegram import telegram

pytestmark = pytest.mark.anyio


def _asked(port: int, path: str) -> tuple[int, str, str]:
    """Return status, type and text of an answer, as `curl` gets them."""
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except HTTPError as error:
        return error.code, "", error.read().decode()


async def asked(port: int, path: str) -> tuple[int, str, str]:
    return await asyncio.to_thread(_asked, port, path)


async def counted(port: int, sample: str) -> float:
    """Return the value of a sample, 0 where it is not there."""
    text = (await asked(port, "/metrics"))[2]
    found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


async def test_pages_of_other_names_read_nothing_on_this_machine() -> None:
    """A web page whose name was made to lead to this machine is another page's origin, and gets no count."""
    metrics, port = Metrics(PUBLIC), free_port()
    async with serving(metrics, "127.0.0.1", port), aiohttp.ClientSession() as browser:
        for host, status in (
            ("rebound.example", 421),
            (f"rebound.example:{port}", 421),
            ("127.0.0.1.rebound.example", 421),
            ("[::1", 421),
            ("localhost", 200),
            (f"127.0.0.1:{port}", 200),
            (f"[::1]:{port}", 200),
        ):
            async with browser.get(f"http://127.0.0.1:{port}/metrics", headers={"Host": host}) as answer:
                assert (host, answer.status) == (host, status)
                assert ("lockgate_" in await answer.text()) is (status == 200)
    # Where other machines may ask, a firewall guards it, and they ask by any name.
    port = free_port()
    async with serving(metrics, "0.0.0.0", port), aiohttp.ClientSession() as prometheus:  # noqa: S104 - the case
        named = {"Host": "lockgate.internal"}
        async with prometheus.get(f"http://127.0.0.1:{port}/metrics", headers=named) as answer:
            assert answer.status == 200


async def test_a_process_tells_health_and_metrics_and_no_name(tmp_path: Path) -> None:
    async with telegram() as server:
        ann, port = server.user("Annabella"), free_port()
        settings = json.loads(config(server, ann))
        settings["metrics"] = {"port": port}
        settings["policy"]["rules"] = [
            {"id": "rosebud", "hook": "PRE_TOOL_CALL", "tools": ["list_files"], "action": "BLOCK"}
        ]
        machine = Machine(tmp_path)
        async with machine.listening(json.dumps(settings), {"BOT_TOKEN": server.token}):
            ann.says(None, "good morning")
            await hears(server, ann.private, "good morning")
            turns = 'lockgate_turns_total{channel="telegram",ended="completed"}'

            async def sent(many: int) -> bool:
                said = await counted(port, 'lockgate_deliveries_total{channel="telegram",state="sent"}')
                return (said, await counted(port, turns)) == (many, many)

            await eventually(lambda: sent(1))
            await eventually(lambda: _is_ready(port))
            assert (await asked(port, "/health"))[::2] == (200, "ready\n")
            told = await asyncio.to_thread(lambda: machine.run("health"))
            assert (told.code, told.out) == (0, "ready: all\n")
            ann.says(None, call("list_files", path="public"))
            await eventually(lambda: sent(2))
            assert await counted(port, 'lockgate_rules_total{hook="PRE_TOOL_CALL",rule="configured"}') == 1
            assert await counted(port, 'lockgate_verdicts_total{hook="PRE_TOOL_CALL",verdict="BLOCK"}') == 1
            assert await counted(port, "lockgate_wait_seconds_count") == 2
            assert await counted(port, "lockgate_store_seconds_count") > 0
            before = _counts((await asked(port, "/metrics"))[2])
            said = len(ann.private.said)
            ann.says(None, call("read_file", path="confidential/pipeline.md"))
            await server.until(lambda: len(ann.private.said) > said)
            ann.says(None, "and what of wisteria?")
            await hears(server, ann.private, "wisteria")
            await asyncio.sleep(1)
            status, kind, text = await asked(port, "/metrics")
            assert (status, kind.startswith("text/plain")) == (200, True)
            # What it read is above the clearance: neither that turn nor one after it is counted.
            assert _counts(text) == before
            assert (await asked(port, "/"))[0] == 404
        for secret in ("Annabella", str(ann.id), "wisteria", "pipeline", "rosebud", "list_files", server.token):
            assert secret not in text, secret
    told = await asyncio.to_thread(lambda: machine.run("health"))
    assert (told.code, told.out) == (1, "not ready: no process of `lockgate run` is there, start one\n")


def _counts(text: str) -> list[str]:
    """Return the samples but for those of the store, which the clock moves."""
    return [line for line in text.splitlines() if not line.startswith(("#", "lockgate_store_"))]


async def test_two_processes_on_one_machine_need_two_ports(tmp_path: Path) -> None:
    async with telegram() as server:
        ann, port, other = server.user("ann"), free_port(), free_port()
        settings = json.loads(config(server, ann))
        settings["metrics"] = {"port": port}
        machine, tokens = Machine(tmp_path), {"BOT_TOKEN": server.token}
        async with machine.listening(json.dumps(settings), tokens):
            # The first poll of a Telegram where nothing happens takes half a minute.
            ann.says(None, "hello")
            await eventually(lambda: _is_ready(port))
            second = await asyncio.to_thread(lambda: machine.run("run", "--role", "worker", **tokens))
            assert second.code == 2
            assert "cannot listen, metrics: " in second.err
            assert "LOCKGATE_METRICS_PORT" in second.err
            wrong = await asyncio.to_thread(
                lambda: machine.run("run", "--role", "worker", **tokens, LOCKGATE_METRICS_PORT="many")
            )
            assert (wrong.code, "`LOCKGATE_METRICS_PORT` is not a port" in wrong.err) == (2, True)
            worker = await asyncio.to_thread(
                lambda: machine.start("run", "--role", "worker", **tokens, LOCKGATE_METRICS_PORT=str(other))
            )
            try:
                await eventually(lambda: _is_ready(other))
                told = await asyncio.to_thread(lambda: machine.run("health"))
                assert (told.code, told.out) == (0, "ready: all, worker\n")
            finally:
                worker.terminate()
                await asyncio.to_thread(worker.communicate)


async def _is_ready(port: int) -> bool:
    try:
        return (await asked(port, "/health"))[0] == 200
    except OSError:
        return False


def test_the_check_tells_where_metrics_are_and_who_reaches_them(machine: Machine) -> None:
    (machine.folder / "config.yaml").write_text("metrics: {}\n")
    checked = machine.run("check")
    assert "metrics at http://127.0.0.1:9464/metrics\n" in checked.out
    (machine.folder / "config.yaml").write_text("metrics: {host: 0.0.0.0}\n")
    checked = machine.run("check")
    assert "metrics at http://0.0.0.0:9464/metrics, other machines reach it" in checked.out
