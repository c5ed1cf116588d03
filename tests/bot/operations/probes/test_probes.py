"""The probes of the doctor: models on loopback, ports that are bound for real, and files with modes."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from bot.config.load import load_config
from bot.config.model import Config
from bot.core.ids import Ids
from bot.operations.diagnostics import Diagnosis
from bot.operations.probes import machine
from bot.operations.probes.models import ASKED, models
from bot.operations.probes.ports import ELSEWHERE, NOT_HERE, ports
from bot.operations.probes.replaced import dropped
from bot.tools.catalogue import NAMES
from channels.http import listening
from tests.people import principal
from tests.sim.act import Act
from tests.sim.ports import free_port
from tests.sim.provider import provider

pytestmark = pytest.mark.anyio

KEY = "sk-4711-and-more"


def configured(folder: Path, **settings: object) -> Config:
    (folder / "config.yaml").write_text(json.dumps(settings))
    return load_config(folder / "config.yaml", {}, NAMES)


async def loaded(folder: Path, **settings: object) -> Config:
    return await asyncio.to_thread(lambda: configured(folder, **settings))


def model(name: str, *others: str, **providers: object) -> dict[str, object]:
    return {"name": name, "choices": others, "retries": 3, "providers": providers}


async def test_each_model_is_asked_for_one_token(tmp_path: Path) -> None:
    """Chat, Responses and Messages; what they answer is of no account, and nothing else is sent."""
    async with provider(*["ok"] * 3) as played:
        openai, anthropic = {"base_url": played.openai}, {"base_url": played.anthropic}
        names = {"openai-chat:a": openai, "openai-responses:b": openai, "anthropic:c": anthropic}
        config = await loaded(tmp_path, model=model(*names, **names))
        found = await models(config, {})
        assert [(one.problem, one.note) for one in found] == [("", "it answers")] * 3
        limits = [
            one.body.get("max_tokens") or one.body.get("max_completion_tokens") or one.body.get("max_output_tokens")
            for one in played.seen
        ]
        assert sorted(map(str, limits)) == ["1", "1", "16"]
        assert all(ASKED in json.dumps(one.body) and "tools" not in one.body for one in played.seen)


async def test_models_are_asked_side_by_side_once_and_not_for_long(tmp_path: Path) -> None:
    async with provider(*[Act(hang=True)] * 3) as played:
        names = {f"openai-chat:{name}": {"base_url": played.openai, "key": "K"} for name in "abc"}
        config = await loaded(tmp_path, model=model(*names, **names))
        async with asyncio.timeout(60):
            found = await models(config, {"K": KEY}, patience=1)
        assert [one.problem for one in found] == ["no answer in 1 seconds"] * 3
        assert len(played.seen) == 3
    async with provider(Act(status=500, text=f"bad {KEY}")) as played:
        config = await loaded(tmp_path, model=model("openai-chat:a", **{"openai-chat:a": {"base_url": played.openai}}))
        (found,) = await models(config, {})
        assert found.problem == "it is overloaded or broken (status 500)"
        assert found.next_step
        assert len(played.seen) == 1
        assert KEY not in str(found)


async def test_the_model_that_needs_no_network_is_not_asked(tmp_path: Path) -> None:
    assert await models(await loaded(tmp_path), {}) == []
    assert await models(await loaded(tmp_path, model={"name": "openai:gpt-5"}), {}) == []


async def test_the_model_of_an_agent_is_asked_with_its_own_key(tmp_path: Path) -> None:
    async with provider("ok", Act(status=401)) as played:
        said = model("openai-chat:a", **{"openai-chat:a": {"base_url": played.openai}})
        agents = {"clerk": {"credential": "clerk", "instructions": "Be brief."}}
        config = await loaded(tmp_path, model=said, agents=agents, secrets={"clerk": {"env": "CLERK"}})
        found = await models(config, {"CLERK": KEY})
        assert len(played.seen) == 2
        assert f"Bearer {KEY}" in {one.headers["authorization"] for one in played.seen}
        wrong = next(one for one in found if one.problem)
        assert KEY not in str(found)
        assert "status 401" in wrong.problem


async def probed(config: Config, *, running: bool = False) -> list[Diagnosis]:
    return await ports(config, lambda: running, Ids(), patience=3)


async def test_a_port_that_is_taken_is_told_and_a_free_one_is_left_free(tmp_path: Path) -> None:
    port = free_port()
    policy = {"channels": {name: {"classification": "PUBLIC"} for name in ("console", "api")}}
    config = await loaded(tmp_path, channels={"api": {"port": port}}, policy=policy)
    assert [one.problem for one in await probed(config)] == [""]
    with socket.create_server(("127.0.0.1", port)):
        (taken,) = await probed(config)
        assert taken.problem == "another program listens there"
        assert f"ss -ltnp sport = :{port}" in taken.next_step
        (ours,) = await probed(config, running=True)
        assert not ours.problem
    config = await loaded(tmp_path, channels={"api": {"host": "192.0.2.1", "port": port}}, policy=policy)
    (nowhere,) = await probed(config)
    assert nowhere.problem == "nothing can listen there, cannot assign requested address"


@asynccontextmanager
async def answering(status: int, text: str = "") -> AsyncGenerator[int]:
    """Run a server that answers everything in one way; return its port."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    port, app = free_port(), web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with listening(app, "127.0.0.1", port, 0.1):
        yield port


async def test_a_public_address_is_proven_to_lead_here(tmp_path: Path) -> None:
    """Slack's address may be one of loopback: the probe listens there and hears itself."""
    port = free_port()
    policy = {"channels": {name: {"classification": "PUBLIC"} for name in ("console", "slack")}}

    async def slack(url: str) -> Config:
        return await loaded(tmp_path, channels={"slack": {"http": {"port": port, "url": url}}}, policy=policy)

    _, here = await probed(await slack(f"http://127.0.0.1:{port}/slack/events"))
    assert (here.problem, here.note) == ("", "it leads to this machine")
    async with answering(200, "welcome") as other:
        _, elsewhere = await probed(await slack(f"http://127.0.0.1:{other}/slack/events"))
        assert elsewhere.problem == f"{NOT_HERE} (status 200)"
        assert f"let its proxy pass requests to 127.0.0.1:{port}" in elsewhere.next_step
    _, gone = await probed(await slack(f"http://127.0.0.1:{free_port()}/slack/events"))
    assert gone.problem == "nothing listens there"
    # A process of this installation listens, and refuses what is not signed.
    for status, problem in ((401, ""), (502, f"{ELSEWHERE} (status 502)")):
        async with answering(status) as other:
            with socket.create_server(("127.0.0.1", port)):
                _, served = await probed(await slack(f"http://127.0.0.1:{other}/slack/events"), running=True)
            assert served.problem == problem


def test_files_of_secrets_that_others_may_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tok-4711-and-more")
    (tmp_path / "token").chmod(0o644)
    keys = tmp_path / ".bot/keys"
    keys.mkdir(mode=0o700, parents=True)
    (keys / "audit").write_bytes(b"k" * 32)
    (keys / "audit").chmod(0o600)
    config = configured(tmp_path, secrets={"token": {"file": "token"}})
    (found,) = machine.modes(config)
    assert found.problem == f"others may use `{tmp_path / 'token'}`"
    assert found.next_step == f"type `chmod 600 {tmp_path / 'token'}`, or `lockgate doctor --fix`"
    assert "4711" not in str(found)
    (tmp_path / "token").chmod(0o600)
    assert [one.problem for one in machine.modes(config)] == [""]
    keys.chmod(0o755)
    assert [one.next_step for one in machine.modes(config)] == [f"type `chmod 700 {keys}`, or `lockgate doctor --fix`"]


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert not machine.disk(config, 1).problem
    assert "make room there" in machine.disk(config, 10**30).next_step


def test_sections_that_drop_a_needed_entry_are_named(tmp_path: Path) -> None:
    assert dropped(configured(tmp_path)) == []
    other = {"openai-chat:a": {"clearance": "PUBLIC"}}
    found = dropped(configured(tmp_path, policy={"models": other}))
    assert [one.next_step for one in found] == ["add `offline: {clearance: top}` to it"]
    # Nobody asks that one.
    said = model("openai-chat:a", **{"openai-chat:a": {"base_url": "http://127.0.0.1:9/v1"}})
    assert dropped(configured(tmp_path, model=said, policy={"models": other})) == []
    served = {
        "principals": {"ann": principal("telegram:1")},
        "channels": {"telegram": {"classification": "PUBLIC"}},
        "recipients": {},
    }
    found = dropped(configured(tmp_path, policy=served))
    assert [one.subject for one in found] == ["policy section `principals`", "policy section `channels`"]
    assert found[0].next_step == "add `owner: {role: owner, clearance: top, accounts: ['console:owner']}` to it"
