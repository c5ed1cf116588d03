"""The mistakes that operators make, each played with real processes: what is configured, and what people do meanwhile.

A scene is set up by an asynchronous function of `STAGE`; docs/troubleshooting.md has a section for each, in order.
"""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bot.store.servers.embedded_server import Supervisor
from channels.slack.setup import SCOPES
from tests.chaos.stepped_clock import SteppedClock
from tests.fleets import alone
from tests.journeys.machine import Ended, Machine, policy
from tests.servers import SERVERS
from tests.sim.act import Act
from tests.sim.ports import free_port
from tests.sim.provider import provider
from tests.sim.slack import Slack, slack
from tests.sim.slack_people import Person as SlackPerson
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_state import Webhook
from tests.sim.telegram_world import Person

Config = dict[str, Any]
MODEL: Final = "openai-chat:sim"
PATIENCE: Final = 120.0
WRONG_KEY: Final = "sk-wrong-4711-and-more"


async def _nothing() -> None:
    pass


@dataclass
class Scene:
    """A machine with one mistake: its configuration, as text or as fields, and the environment.

    `act` is what people do while `lockgate run` runs, `chat` what they are shown, `names` stand in for what differs
    from run to run. With `ends` the process ends by itself; with `before` the doctor is asked before it begins.
    """

    config: Config | str
    environment: dict[str, str]
    act: Callable[[], Awaitable[None]] = _nothing
    chat: Callable[[], list[str]] = list[str]
    names: dict[str, str] = field(default_factory=dict[str, str])
    ends: bool = False
    before: bool = False


Stage = Callable[[AsyncExitStack, Path], Awaitable[Scene]]


def _owned(channel: str, account: str, **sections: object) -> Config:
    return {**policy(channel, account, {}), "paired": None, **sections}


def _telegram(server: Telegram, ann: Person, more: Config | None = None, **sections: object) -> Config:
    said = _owned("telegram", f"telegram:{ann.id}", **sections)
    return {"channels": {"telegram": {"base_url": f"http://127.0.0.1:{server.port}"}}, "policy": said, **(more or {})}


def _slack(server: Slack, ann: SlackPerson, **sections: object) -> Config:
    said = _owned("slack", f"slack:{server.team.id}:{ann.id}", **sections)
    return {"channels": {"slack": {"base_url": server.api}}, "policy": said}


async def _bot(stack: AsyncExitStack, **state: Any) -> tuple[Telegram, Person]:  # noqa: ANN401 - fields of the state
    """Play a bot, to which somebody wrote already: the first poll is answered at once, and then the bot listens."""
    server = await stack.enter_async_context(telegram(**state))
    server.user("Zoe").says(None, "hello")
    return server, server.user("Ann")


async def _talking(server: Telegram, ann: Person) -> None:
    ann.says(None, "hello")
    await server.until(lambda: bool(ann.private.said), 60)


async def wrong_token(stack: AsyncExitStack, _folder: Path) -> Scene:
    server, ann = await _bot(stack)
    return Scene(_telegram(server, ann), {"TELEGRAM_TOKEN": f"{server.token}x"})


async def token_of_another_bot(stack: AsyncExitStack, folder: Path) -> Scene:
    """The bot of before is known by what is kept for it."""
    first, ann = await _bot(stack)
    machine, url = Machine(folder), await SERVERS.at(folder)
    told = {"TELEGRAM_TOKEN": first.token, "LOCKGATE_STORE_URL": url}
    async with machine.listening(json.dumps(_telegram(first, ann)), told):
        await _talking(first, ann)
    other, ann = await _bot(stack, token="777000:the-other-bots-token", username="other_bot")  # noqa: S106 - it opens nothing
    return Scene(_telegram(other, ann), {"TELEGRAM_TOKEN": other.token}, names={first.token.split(":")[0]: "NUMBER"})


async def webhook_while_polling(stack: AsyncExitStack, _folder: Path) -> Scene:
    server, ann = await _bot(stack)
    ann.says(None, "hello")
    server.state.webhook = Webhook("https://elsewhere.example/hook")
    return Scene(_telegram(server, ann), {"TELEGRAM_TOKEN": server.token}, chat=lambda: ann.private.said)


async def two_pollers(stack: AsyncExitStack, folder: Path) -> Scene:
    """Another installation, with a store of its own, has the same token."""
    server, ann = await _bot(stack)
    other = folder / "other"
    other.mkdir()
    text = json.dumps(_telegram(server, ann))
    there = {"TELEGRAM_TOKEN": server.token, "LOCKGATE_STORE_URL": await SERVERS.at(other)}
    (other / "config.yaml").write_text(text)
    process = await asyncio.to_thread(lambda: Machine(other).start("run", **there))

    def end() -> None:
        process.terminate()
        process.communicate(timeout=PATIENCE)

    stack.callback(end)
    await server.until(lambda: bool(server.asked("getUpdates")), PATIENCE)
    return Scene(_telegram(server, ann), {"TELEGRAM_TOKEN": server.token}, before=True)


async def privacy_mode(stack: AsyncExitStack, _folder: Path) -> Scene:
    server, ann = await _bot(stack)
    channels = {
        "console": {"classification": "top"},
        "telegram": {"classification": "CONFIDENTIAL", "observe": 20},
    }
    return Scene(_telegram(server, ann, channels=channels), {"TELEGRAM_TOKEN": server.token})


async def not_in_the_group(stack: AsyncExitStack, _folder: Path) -> Scene:
    server, ann = await _bot(stack)
    chats = {"office": {"channel": "telegram", "chat": "-1001234", "classification": "INTERNAL"}}
    return Scene(_telegram(server, ann, chats=chats), {"TELEGRAM_TOKEN": server.token})


async def stranger(stack: AsyncExitStack, _folder: Path) -> Scene:
    """Nobody entered the account of the person who writes."""
    server, ann = await _bot(stack)
    ben = server.user("Ben")

    async def act() -> None:
        ben.says(None, "/start")
        await server.until(lambda: bool(ben.private.said), 60)

    names = {f"telegram:{ben.id}": "ACCOUNT"}
    return Scene(_telegram(server, ann), {"TELEGRAM_TOKEN": server.token}, act, lambda: ben.private.said, names)


async def wrong_signing_secret(stack: AsyncExitStack, _folder: Path) -> Scene:
    port = free_port()
    server = await stack.enter_async_context(slack(events=f"http://127.0.0.1:{port}/slack/events"))
    ann = server.user("ann")
    config = _slack(server, ann)
    config["channels"]["slack"]["http"] = {"port": port}

    async def act() -> None:
        await ann.says(ann.dm(), "hello")

    return Scene(
        config, {"SLACK_TOKEN": server.bot.value, "SLACK_SIGNING_SECRET": "0" * 32}, act, names={str(port): "PORT"}
    )


async def app_token_missing(stack: AsyncExitStack, _folder: Path) -> Scene:
    server = await stack.enter_async_context(slack())
    return Scene(_slack(server, server.user("ann")), {"SLACK_TOKEN": server.bot.value}, ends=True)


async def bot_token_as_app_token(stack: AsyncExitStack, _folder: Path) -> Scene:
    server = await stack.enter_async_context(slack())
    environment = {"SLACK_TOKEN": server.bot.value, "SLACK_APP_TOKEN": server.bot.value}
    return Scene(_slack(server, server.user("ann")), environment)


async def missing_scope(stack: AsyncExitStack, _folder: Path) -> Scene:
    server = await stack.enter_async_context(slack(scopes=[one for one in SCOPES if one != "users:read"]))
    environment = {"SLACK_TOKEN": server.bot.value, "SLACK_APP_TOKEN": server.app_token}
    return Scene(_slack(server, server.user("ann")), environment)


async def not_in_the_channel(stack: AsyncExitStack, _folder: Path) -> Scene:
    server = await stack.enter_async_context(slack())
    ann = server.user("ann")
    channel = server.channel("office", ann, kind="private")
    channel.members.remove(server.bot.user)
    chat = {"channel": "slack", "workspace": server.team.id, "chat": channel.id, "classification": "INTERNAL"}
    environment = {"SLACK_TOKEN": server.bot.value, "SLACK_APP_TOKEN": server.app_token}
    return Scene(_slack(server, ann, chats={"office": chat}), environment, names={channel.id: "CHANNEL"})


async def port_taken(stack: AsyncExitStack, _folder: Path) -> Scene:
    taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    port = taken.getsockname()[1]
    said = {"channels": {"console": {"classification": "top"}, "api": {"classification": "PUBLIC"}}}
    return Scene({"channels": {"api": {"port": port}}, "policy": said}, {}, names={str(port): "PORT"}, ends=True)


async def store_not_reachable(stack: AsyncExitStack, _folder: Path) -> Scene:
    server, ann = await _bot(stack)
    port = free_port()
    environment = {"TELEGRAM_TOKEN": server.token, "LOCKGATE_STORE_URL": f"redis://127.0.0.1:{port}/0"}
    return Scene(_telegram(server, ann), environment, names={str(port): "PORT"})


async def store_password(stack: AsyncExitStack, folder: Path) -> Scene:
    """The store has a password, and another one is given."""
    server, ann = await _bot(stack)
    store = Supervisor(folder / "store")
    await store.attach()
    stack.push_async_callback(store.detach)

    def told(*lines: str) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.connect(str(store.files.socket))
            for each in lines:
                line.sendall(f"{each}\r\n".encode())
                assert line.recv(64) == b"+OK\r\n"

    told("CONFIG SET requirepass the-right-one")
    stack.callback(told, "AUTH the-right-one", 'CONFIG SET requirepass ""')
    url = f"unix://lockgate:the-wrong-one@{store.files.socket}"
    return Scene(_telegram(server, ann), {"TELEGRAM_TOKEN": server.token, "LOCKGATE_STORE_URL": url}, ends=True)


async def store_too_old(stack: AsyncExitStack, _folder: Path) -> Scene:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = "redis_version:6.2.0"
        while asked := await reader.read(1000):
            writer.write((f"${len(info)}\r\n{info}\r\n" if b"INFO" in asked else "+OK\r\n").encode())
        writer.close()

    old = await stack.enter_async_context(await asyncio.start_server(play, "127.0.0.1", 0))
    port = old.sockets[0].getsockname()[1]
    server, ann = await _bot(stack)
    environment = {"TELEGRAM_TOKEN": server.token, "LOCKGATE_STORE_URL": f"redis://127.0.0.1:{port}/0"}
    return Scene(_telegram(server, ann), environment, ends=True)


async def store_clock_wrong(stack: AsyncExitStack, folder: Path) -> Scene:
    """The store is on a machine whose clock is a minute and a half ahead."""
    server, ann = await _bot(stack)
    clock = await asyncio.to_thread(SteppedClock, folder)
    assert clock.there, "a C compiler is needed to step a server's clock"
    await asyncio.to_thread(clock.step, 90)
    of_store = ExitStack()
    stack.push_async_callback(asyncio.to_thread, of_store.close)
    lone = await asyncio.to_thread(of_store.enter_context, alone(more=clock.environment))
    return Scene(_telegram(server, ann), {"TELEGRAM_TOKEN": server.token, "LOCKGATE_STORE_URL": lone.url})


async def data_dir_not_writable(stack: AsyncExitStack, folder: Path) -> Scene:
    """A file stands where the directory is to be: as root a test may write everywhere."""
    server, ann = await _bot(stack)
    (folder / "data").write_text("")
    return Scene(_telegram(server, ann, {"data_dir": "data/bot"}), {"TELEGRAM_TOKEN": server.token}, ends=True)


async def data_dir_open_to_others(stack: AsyncExitStack, folder: Path) -> Scene:
    server, ann = await _bot(stack)
    (folder / "data").mkdir()
    (folder / "data").chmod(0o777)
    return Scene(_telegram(server, ann, {"data_dir": "data"}), {"TELEGRAM_TOKEN": server.token}, ends=True)


def _model(name: str, **said: object) -> Config:
    return {"name": name, "retries": 0, "providers": {name: said}}


async def _with_model(stack: AsyncExitStack, model: Config, environment: dict[str, str], **scene: Any) -> Scene:  # noqa: ANN401 - fields of a scene
    server, ann = await _bot(stack)
    models = {model["name"]: {"clearance": "top"}}

    async def act() -> None:
        ann.says(None, "hello")
        await server.until(lambda: len(ann.private.said) > 1, 60)

    config = _telegram(server, ann, {"model": model}, models=models)
    tokens = {"TELEGRAM_TOKEN": server.token, **environment}
    return Scene(config, tokens, act, lambda: ann.private.said, **scene)


async def model_key_missing(stack: AsyncExitStack, _folder: Path) -> Scene:
    return await _with_model(stack, {"name": "openai:gpt-5"}, {"OPENAI_API_KEY": ""}, ends=True)


async def model_key_wrong(stack: AsyncExitStack, _folder: Path) -> Scene:
    played = await stack.enter_async_context(provider(*[Act(status=401, text="no")] * 20))
    model = _model(MODEL, base_url=played.openai, key="MODEL_KEY")
    return await _with_model(stack, model, {"MODEL_KEY": WRONG_KEY}, names={str(played.port): "PORT"})


async def model_name_wrong(stack: AsyncExitStack, _folder: Path) -> Scene:
    played = await stack.enter_async_context(provider(*[Act(status=404, text="no")] * 20))
    return await _with_model(stack, _model(MODEL, base_url=played.openai), {}, names={str(played.port): "PORT"})


async def base_url_wrong(stack: AsyncExitStack, _folder: Path) -> Scene:
    port = free_port()
    model = _model(MODEL, base_url=f"http://127.0.0.1:{port}/v1")
    return await _with_model(stack, model, {}, names={str(port): "PORT"})


async def provider_unknown(stack: AsyncExitStack, _folder: Path) -> Scene:
    return await _with_model(stack, {"name": "opena:gpt-5"}, {}, ends=True)


async def _with_mcp(stack: AsyncExitStack, command: list[str]) -> Scene:
    server, ann = await _bot(stack)
    tool: Config = {"description": "Search.", "effect": "read", "arguments": {}}
    entry: Config = {"command": command[0], "args": command[1:], "tools": {"search": tool}}
    config = _telegram(server, ann, {"mcp_servers": {"notes": entry}}, mcp_servers={"notes": {"floor": "PUBLIC"}})

    async def act() -> None:
        ann.says(None, "!notes__search {}")
        await server.until(lambda: len(ann.private.said) > 0, 60)

    return Scene(config, {"TELEGRAM_TOKEN": server.token}, act, lambda: ann.private.said)


async def mcp_command_missing(stack: AsyncExitStack, _folder: Path) -> Scene:
    return await _with_mcp(stack, ["notes-server"])


async def mcp_crashes(stack: AsyncExitStack, _folder: Path) -> Scene:
    return await _with_mcp(stack, ["sh", "-c", "echo no notes here >&2; sleep 0.5; exit 1"])


async def yaml_broken(_stack: AsyncExitStack, _folder: Path) -> Scene:
    return Scene("channels:\n  telegram: {token: TELEGRAM_TOKEN\n", {}, ends=True)


async def field_unknown(_stack: AsyncExitStack, _folder: Path) -> Scene:
    return Scene("channels:\n  telegram:\n    tokn: TELEGRAM_TOKEN\n", {}, ends=True)


async def time_zone_wrong(_stack: AsyncExitStack, _folder: Path) -> Scene:
    hours = "{days: [mon], from: '18:00', to: '08:00', zone: Europe/Amsterdm}"
    rule = f"{{id: night, hook: PRE_OUTPUT, schedule: {hours}, action: BLOCK}}"
    return Scene(f"policy:\n  rules:\n    - {rule}\n", {}, ends=True)


async def channel_unlabelled(_stack: AsyncExitStack, _folder: Path) -> Scene:
    return Scene("channels:\n  telegram: {}\n", {}, ends=True)


async def console_dropped(stack: AsyncExitStack, _folder: Path) -> Scene:
    server, ann = await _bot(stack)
    config = _telegram(server, ann)
    del config["policy"]["channels"]["console"]
    return Scene(config, {"TELEGRAM_TOKEN": server.token}, ends=True)


async def model_dropped(stack: AsyncExitStack, _folder: Path) -> Scene:
    server, ann = await _bot(stack)
    config = _telegram(server, ann, models={MODEL: {"clearance": "PUBLIC"}})
    return Scene(config, {"TELEGRAM_TOKEN": server.token})


STAGE: Final[dict[str, Stage]] = {
    "The bot's token is wrong": wrong_token,
    "The token is that of another bot": token_of_another_bot,
    "A webhook is set, and the bot polls": webhook_while_polling,
    "Two installations poll for one bot": two_pollers,
    "Privacy mode is on, and groups are to be observed": privacy_mode,
    "The bot is not in a group of the policy": not_in_the_group,
    "The owner's account is not in the policy": stranger,
    "Slack's signing secret is wrong": wrong_signing_secret,
    "The app-level token is missing": app_token_missing,
    "The bot's token is given as the app-level token": bot_token_as_app_token,
    "A scope is missing": missing_scope,
    "The bot is not in a channel of the policy": not_in_the_channel,
    "The port is taken": port_taken,
    "The store is not reachable": store_not_reachable,
    "The store's password is wrong": store_password,
    "The store is too old": store_too_old,
    "The store's clock is wrong": store_clock_wrong,
    "The data directory cannot be made": data_dir_not_writable,
    "The data directory is open to others": data_dir_open_to_others,
    "The model's key is missing": model_key_missing,
    "The model's key is wrong": model_key_wrong,
    "The model's name is wrong": model_name_wrong,
    "The model's address is wrong": base_url_wrong,
    "The model's provider is misspelt": provider_unknown,
    "The command of an MCP server is not installed": mcp_command_missing,
    "An MCP server crashes at its start": mcp_crashes,
    "config.yaml is not YAML": yaml_broken,
    "A field is misspelt": field_unknown,
    "A time zone is misspelt": time_zone_wrong,
    "A platform has no classification": channel_unlabelled,
    "`policy.channels` drops the console": console_dropped,
    "`policy.models` drops the model in use": model_dropped,
}
"""The mistakes, as the sections of docs/troubleshooting.md name them."""


@dataclass(frozen=True)
class Observed:
    """What a mistake looks like: to the doctor, in the log, and in the chat."""

    doctor: str
    code: int
    log: str
    chat: str


@asynccontextmanager
async def played(stage: Stage, folder: Path) -> AsyncGenerator[tuple[Machine, Scene]]:
    """Set a scene up on a machine."""
    async with AsyncExitStack() as stack:
        scene = await stage(stack, folder)
        text = scene.config if isinstance(scene.config, str) else json.dumps(scene.config)
        (folder / "config.yaml").write_text(text)
        if "LOCKGATE_STORE_URL" not in scene.environment:
            scene.environment["LOCKGATE_STORE_URL"] = await SERVERS.at(folder)
        yield Machine(folder), scene


async def observed(
    machine: Machine, scene: Scene, seen: Callable[[str], bool], diagnosed: Callable[[str], bool]
) -> Observed:
    """Run the process, let people act, wait until its log has been `seen`, ask the doctor beside it, and end it.

    The doctor is asked a few times, until it `diagnosed`: processes share only now and then what failed.
    """

    async def doctor() -> Ended:
        while True:
            ended = await asyncio.to_thread(lambda: machine.run("doctor", "--probe", **scene.environment))
            if diagnosed(_shortened(ended.out + ended.err, machine, scene)) or loop.time() > until:
                return ended
            await asyncio.sleep(2)

    loop, lines = asyncio.get_running_loop(), list[str]()
    until = loop.time() + PATIENCE
    ended = await doctor() if scene.before else None
    process = await asyncio.to_thread(lambda: machine.start("run", **scene.environment))
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None
    assert stdout is not None
    assert stderr is not None
    reading = asyncio.create_task(asyncio.to_thread(lambda: lines.extend(line.decode() for line in stderr)))

    async def logged(what: Callable[[str], bool]) -> None:
        while not what(_shortened("".join(lines), machine, scene)) and not reading.done() and loop.time() < until:
            await asyncio.wait({reading}, timeout=0.05)

    try:
        if not scene.ends:
            # People find the bot listening, or something that keeps it from it.
            await logged(lambda log: "listening to" in log or '"cause"' in log)
            await scene.act()
        await logged(seen)
        ended = ended or await doctor()
        if scene.ends:
            await asyncio.wait({reading}, timeout=PATIENCE)
    finally:
        if not reading.done():
            process.terminate()
        await asyncio.wait({reading}, timeout=PATIENCE)
        await asyncio.to_thread(process.wait, PATIENCE)
        for pipe in (stdin, stdout, stderr):
            pipe.close()
    texts = (ended.out + ended.err, "".join(lines), "\n".join(scene.chat()))
    diagnosis, log, chat = (_shortened(text, machine, scene) for text in texts)
    return Observed(diagnosis, ended.code, log, chat)


def _shortened(text: str, machine: Machine, scene: Scene) -> str:
    for real, name in {str(machine.folder): "FOLDER", "127.0.0.1": "HOST", **scene.names}.items():
        text = text.replace(real, name)
    return text
