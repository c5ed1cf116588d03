"""`/doctor`: what a running process says is to be mended, of platforms that are played on loopback, and to whom."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from bot.access.authorize import Caller, Ingress
from bot.access.labelling import CONFIGURED
from bot.app.app import App
from bot.app.opening import open_app
from bot.commands.admin.configuration import NOTHING
from bot.commands.command import Reply
from bot.config.load import load_config
from bot.operations.diagnostics import agents, configured, model, speaking, tools
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from bot.tools.catalogue import NAMES
from channels.console import Console
from channels.slack.setup import SCOPES
from policy.labels import PUBLIC, Label, parse
from policy.request import Role
from tests.bot.kit import HOME, TOP, Probe
from tests.servers import SERVERS
from tests.sim.slack import slack
from tests.sim.telegram import telegram
from tests.sim.telegram_state import Webhook

pytestmark = pytest.mark.anyio

VALUE = "tok-4711-and-more"


@asynccontextmanager
async def opened(folder: Path, environment: dict[str, str], **settings: object) -> AsyncGenerator[App]:
    (folder / "config.yaml").write_text(json.dumps(settings))
    place = await SERVERS.place(folder / "data")
    config = await asyncio.to_thread(load_config, folder / "config.yaml", place, NAMES)
    async with open_app(config, [Console(io.StringIO())], environment, listening=True) as app:
        yield app


async def asked(app: App, clearance: Label = TOP, line: str = "/doctor", role: Role = Role.ADMIN) -> Reply:
    caller = Caller("owner", role, clearance, Ingress.COMMAND)
    return await app.commands.answer(app.commands.request(caller, HOME, app.session_id(HOME)), line)


async def test_platforms_are_asked_what_is_wrong_with_their_connection(tmp_path: Path) -> None:
    """By the adapters that listen already: nobody else polls, and no socket more is opened."""
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(telegram())
        other = await stack.enter_async_context(slack(scopes=[scope for scope in SCOPES if scope != "users:read"]))
        tokens = {"TG": one.token, "SL": other.bot.value, "APP": other.app_token}
        app = await stack.enter_async_context(
            opened(
                tmp_path,
                tokens,
                channels={
                    "telegram": {"token": "TG", "base_url": f"http://127.0.0.1:{one.port}"},
                    "slack": {"token": "SL", "app_token": "APP", "base_url": other.api},
                },
                policy={"channels": {name: {"classification": "top"} for name in ("console", "telegram", "slack")}},
            )
        )
        one.state.webhook = Webhook("https://elsewhere.example/")
        told = await asked(app, PUBLIC)
        assert "mend  channel telegram: a webhook is set for this bot" in told.text
        assert "`deleteWebhook`" in told.text
        assert "mend  channel slack: the app lacks the scopes `users:read`, add them" in told.text
        assert told.label == PUBLIC
        assert not any(token in told.text for token in tokens.values())
        assert not one.asked("getUpdates")


async def test_what_tells_of_the_configuration_has_its_label(tmp_path: Path) -> None:
    settings: dict[str, object] = {
        "web": {"unsafe_allow_private_addresses": ["10.1.2.3:80"]},
        "secrets": {"weather": {"file": "the-key"}},
    }
    (tmp_path / "the-key").write_text(VALUE)
    async with opened(tmp_path, {}, **settings) as app:
        (tmp_path / "the-key").unlink()
        told = await asked(app)
        assert "mend  web: every session may reach `10.1.2.3:80`, take them out" in told.text
        assert "mend  secrets: secret `weather`" in told.text
        assert told.label == CONFIGURED
        assert VALUE not in told.text
        hidden = await asked(app, PUBLIC)
        assert hidden.text.startswith(NOTHING)
        assert "10.1.2.3" not in hidden.text
        assert hidden.label == PUBLIC


async def test_a_model_without_its_key_or_its_clearance_is_named(tmp_path: Path) -> None:
    async with opened(tmp_path, {}, model={"name": "openai-chat:gpt-5"}) as app:
        told = await asked(app)
        assert "mend  model: `openai-chat:gpt-5` needs a key, set OPENAI_API_KEY" in told.text
        assert told.label == CONFIGURED
        assert (await asked(app, PUBLIC)).text.startswith(NOTHING)


async def test_it_is_for_admins(tmp_path: Path) -> None:
    async with opened(tmp_path, {}) as app:
        assert (await asked(app)).text.startswith(NOTHING)
        assert "Unknown command" in (await asked(app, role=Role.APPROVER)).text
        assert "Write it as `/doctor`" in (await asked(app, line="/doctor all")).text


@pytest.mark.parametrize("said,noted", [({}, True), ({"context_tokens": 32_000}, False)])
def test_a_model_whose_window_nobody_knows_is_named(tmp_path: Path, said: dict[str, int], noted: bool) -> None:  # noqa: FBT001 - a row of a table
    name, other = "openai-chat:made-here", "openai-chat:made-there"
    chain = {"name": name, "fallback": ["openai-chat:gpt-4o", other], "providers": {name: said, other: said}}
    models = {one: {"clearance": "PUBLIC"} for one in (name, "openai-chat:gpt-4o", other)}
    (tmp_path / "config.yaml").write_text(json.dumps({"model": chain, "policy": {"models": models}}))
    config = load_config(tmp_path / "config.yaml", {}, NAMES)
    found = model(config, {"OPENAI_API_KEY": "none"})
    assert found.problem == ""
    assert (f"nobody knows how much `{name}` or `{other}` reads at once" in found.note) is noted
    assert "gpt-4o" not in found.note


@pytest.mark.parametrize(
    "said,problem,noted",
    [
        pytest.param({"context_tokens": 5000, "output_tokens": 1000}, True, False, id="they fill it"),
        pytest.param({"context_tokens": 7000, "output_tokens": 1000}, False, True, id="they fill most of it"),
        pytest.param({"context_tokens": 32_000}, False, False, id="there is room"),
        pytest.param({}, False, False, id="nobody knows how large it is"),
    ],
)
def test_tools_that_fill_a_window_are_told_of(
    tmp_path: Path, said: dict[str, int], *, problem: bool, noted: bool
) -> None:
    name = "openai-chat:made-here"
    chain = {"name": name, "providers": {name: said}}
    models = {name: {"clearance": "PUBLIC"}}
    (tmp_path / "config.yaml").write_text(json.dumps({"model": chain, "policy": {"models": models}}))
    config = load_config(tmp_path / "config.yaml", {}, NAMES)
    found = tools(config, {"OPENAI_API_KEY": "none"}, [Probe(description="x" * 12_000)])
    assert ("so it cannot be asked" in found.problem, "raise `context_tokens`" in found.next_step) == (problem, problem)
    told = found.note or found.problem
    assert ("about 4," in told, f"`{name}` reads" in told) == (problem or noted, problem or noted)
    assert bool(found.note) is noted


def test_a_model_that_cannot_be_made_is_no_matter_of_its_tools(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps({"model": {"name": "openai-chat:gpt-4o"}}))
    found = tools(load_config(tmp_path / "config.yaml", {}, NAMES), {}, [Probe(description="x" * 12_000_000)])
    assert (found.problem, found.note) == ("", "")


async def test_an_admin_is_told_of_tools_that_fill_a_window(tmp_path: Path) -> None:
    small = {"context_tokens": 1000, "output_tokens": 100}
    async with opened(tmp_path, {}, model={"providers": {"offline": small}}) as app:
        assert "mend  tools: the tools' definitions alone take about" in (await asked(app)).text
        assert "definitions" not in (await asked(app, PUBLIC)).text


async def test_an_agent_whose_models_cannot_be_asked_with_its_key_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"ACME": VALUE, "OPENAI_API_KEY": VALUE}
    # Its library looks for the key in the environment of the process.
    monkeypatch.setenv("DEEPSEEK_API_KEY", VALUE)
    path = tmp_path / "config.yaml"

    def said(name: str) -> str:
        acme = {"model": {"name": name}, "credential": "acme"}
        chosen = {"name": "offline", "choices": ["openai-chat:a", "deepseek:b"]}
        return json.dumps({"model": chosen, "agents": {"acme": acme}, "secrets": {"acme": {"env": "ACME"}}})

    path.write_text(said("openai-chat:a"))
    config = await asyncio.to_thread(load_config, path, {}, NAMES)
    found = await asyncio.to_thread(agents, config, keys)
    assert (found.problem, found.note) == ("", "`default`, `acme`")
    assert found in await configured(config, keys)
    # That a value is not there is told of the secrets, once.
    assert (await asyncio.to_thread(agents, config, {})).problem == ""
    path.write_text(said("deepseek:b"))
    config = await asyncio.to_thread(load_config, path, {}, NAMES)
    found = await asyncio.to_thread(agents, config, keys)
    assert found.problem == "model `deepseek:b` takes no key of an agent"
    assert "openai" in found.next_step
    assert VALUE not in f"{found}"


async def test_it_warns_of_a_program_that_sees_none_of_its_own_sessions(tmp_path: Path) -> None:
    """What it says is above its token, so that each of its sessions is from the first message on."""
    console = {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"}
    policy = {"channels": {"console": console, "api": {"classification": "CONFIDENTIAL", "inbound": "INTERNAL"}}}
    async with opened(tmp_path, {}, channels={"api": {"port": 8484}}, policy=policy) as app:
        for name, clearance in (("low", "PUBLIC"), ("fit", "INTERNAL"), ("high", "RESTRICTED")):
            request = TokenRequest(name, Scope.STEER, parse(clearance), 0)
            await app.token_keeper.create(request, Caller("owner", Role.OWNER, TOP, Ingress.COMMAND))
        told = (await asked(app)).text
        assert "INTERNAL" in speaking(app.config)
    (line,) = [line for line in told.splitlines() if " api" in line]
    assert "`low` may not read its own messages" in line
    assert "policy.channels.api.inbound" in line
    assert not line.startswith("ok")
    assert "fit" not in line


@pytest.mark.parametrize(
    "host,warned",
    [("127.0.0.1", False), ("::1", False), ("localhost", False), ("192.0.2.7", True), ("a.example", True)],
)
async def test_it_tells_where_programs_come_in_and_warns_where_others_reach_it(
    tmp_path: Path, host: str, *, warned: bool
) -> None:
    console = {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"}
    policy = {"channels": {"console": console, "api": {"classification": "INTERNAL"}}}
    async with opened(tmp_path, {}, channels={"api": {"host": host, "port": 8484}}, policy=policy) as app:
        told = (await asked(app)).text
    (line,) = [line for line in told.splitlines() if line.startswith("ok    api")]
    assert "8484, no token counts, `lockgate token create` makes one" in line
    assert ("TLS" in line) is warned
