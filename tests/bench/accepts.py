"""Accept to acknowledge: from a platform's telling until it is told that it was taken.

Lockgate keeps the message before it acknowledges: read, routed, authorized, written by one script. The reference is
what the platform's library does without keeping anything, and one bare script besides. Both answer the same played
platform in the same process, one message at a time.
"""

# pyright: reportPrivateUsage=false

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import aiohttp
from aiohttp import web
from redis.asyncio import Redis
from telegram import Bot, Update
from telegram.request import HTTPXRequest

from bot.app.app import App
from bot.app.opening import open_app
from bot.sessions.inbox import NewItem
from bot.sessions.messages import SessionMessage
from bot.store.opening import open_store
from bot.store.servers.embedded_server import Supervisor
from policy.labels import PUBLIC
from tests.bench.measure import Row, by_turns_async, ratio_at_most, warm
from tests.bench.replay import replayed
from tests.bench.rig import bolt, crowd_config, during
from tests.sim.ports import free_port
from tests.sim.slack import Slack, slack
from tests.sim.slack_state import Event
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_world import Person

_ROUNDS: Final = 40
_WARM: Final = 5
_BATCH: Final = 20
_PEOPLE: Final = 100
_HELLO: Final = "When is the meeting? I need the notes of the last one, too."
_SECRET: Final = "s" * 32

Ask = Callable[[], Awaitable[float]]
"""Return the seconds that one message took."""


def rows() -> Iterator[Row]:
    with TemporaryDirectory(prefix="lgb") as folder:
        for name, (ours, bare, script) in asyncio.run(_measured(Path(folder))).items():
            yield Row(name, ours * 1e3, "ms", (bare + script) * 1e3, ratio_at_most(2))


async def _measured(folder: Path) -> dict[str, list[float]]:
    found = dict[str, list[float]]()
    for name, measured in (
        ("accept_telegram_poll", _polled),
        ("accept_telegram_webhook", _posted),
        ("accept_slack", _enveloped),
    ):
        home = folder / name
        home.mkdir()
        # Each is an installation with keys of its own, so it has a store of its own.
        supervisor = Supervisor(home / "server")
        await supervisor.attach()
        try:
            async with _script(supervisor.url) as script, measured(home, supervisor.url) as (ours, bare):
                await warm(ours, bare, script, rounds=_WARM)
                found[name] = await by_turns_async(ours, bare, script, rounds=_ROUNDS)
        finally:
            await supervisor.detach()
    return found


@asynccontextmanager
async def _script(url: str) -> AsyncGenerator[Ask]:
    """Time the script that keeps a message, by redis-py's own client."""
    store = await open_store(audit_key=bytes(32), url=url)
    # The library leaves its signatures untyped.
    client = cast("Any", Redis).from_url(url, protocol=2)
    numbers = itertools.count()

    async def accept(sid: str) -> None:
        message = SessionMessage(_HELLO, "telegram:1001")
        await store.sessions.accept(NewItem(sid, "telegram/1", "crowd", PUBLIC, message, "telegram::1001:", "crowd"))

    bare = await replayed(store, client, accept)

    async def ask() -> float:
        begin = time.perf_counter()
        for _ in range(_BATCH):
            await bare(f"bare{next(numbers)}")
        return (time.perf_counter() - begin) / _BATCH

    try:
        yield ask
    finally:
        await client.aclose()
        await store.close()


@asynccontextmanager
async def _listening(
    folder: Path, store: str, channels: dict[str, object], environment: dict[str, str], accounts: list[str]
) -> AsyncGenerator[App]:
    """Listen to a platform and keep what it tells; nobody answers."""
    limits = {"inbox_items": 10_000, "person_messages_per_minute": 100_000}
    config = crowd_config(folder, channels, accounts, store={"url": store}, limits=limits)
    async with open_app(config, [], environment, listening=True) as app:
        await app.reloader.start(_silent)
        before = await app.store.audit.head("audit")
        async with during(app.listen()):
            yield app
        if not await app.store.wake.ready(wait=1) or await app.store.audit.head("audit") != before:
            raise RuntimeError("what came in was not kept")


async def _silent(_line: str) -> None:
    pass


# --- Telegram, polled


@asynccontextmanager
async def _polled(folder: Path, store: str) -> AsyncGenerator[tuple[Ask, Ask]]:
    async with telegram() as server, telegram() as other:
        people = [server.user("P") for _ in range(_PEOPLE)]
        accounts = [f"telegram:{person.id}" for person in people]
        channels: dict[str, object] = {"telegram": {"base_url": f"http://127.0.0.1:{server.port}"}}
        tokens = {"TELEGRAM_TOKEN": server.token}
        async with _listening(folder, store, channels, tokens, accounts), during(_poll(other)):
            yield _batches(server, people), _batches(other, [other.user("P") for _ in range(_PEOPLE)])


def _batches(server: Telegram, people: list[Person]) -> Ask:
    """Time a batch of updates until all of them are confirmed."""
    turns = itertools.cycle(people)

    async def ask() -> float:
        for _ in range(_BATCH):
            next(turns).says(None, _HELLO)
        begin = time.perf_counter()
        while server.state.updates:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0)
        return (time.perf_counter() - begin) / _BATCH

    return ask


async def _poll(server: Telegram) -> None:
    """Poll with the library alone."""
    offset = 0
    async with Bot(server.token, server.base_url, get_updates_request=HTTPXRequest(1)) as bot:
        while True:
            for update in await bot.get_updates(offset, timeout=10):
                offset = update.update_id + 1


# --- Telegram, by webhook


@asynccontextmanager
async def _posted(folder: Path, store: str) -> AsyncGenerator[tuple[Ask, Ask]]:
    async with telegram() as server, aiohttp.ClientSession() as session, _webhook(server) as other:
        people = [server.user("P") for _ in range(_PEOPLE)]
        accounts = [f"telegram:{person.id}" for person in people]
        settings = {"url": "https://bot.example/", "secret": "HOOK", "port": free_port()}
        channels: dict[str, object] = {"telegram": {"base_url": f"http://127.0.0.1:{server.port}", "webhook": settings}}
        environment = {"TELEGRAM_TOKEN": server.token, "HOOK": _SECRET}
        ours = f"http://127.0.0.1:{settings['port']}/"
        async with _listening(folder, store, channels, environment, accounts):
            while not server.state.webhook.url:  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.01)
            updates = _updates(people)
            await _post(session, ours, next(updates))
            yield (lambda: _post(session, ours, next(updates))), (lambda: _post(session, other, next(updates)))


def _updates(people: list[Person]) -> Iterator[dict[str, object]]:
    for number, person in enumerate(itertools.cycle(people), 1):
        who = {"id": person.id, "is_bot": False, "first_name": "P"}
        chat = {"id": person.id, "type": "private", "first_name": "P"}
        message = {"message_id": number, "date": 1_700_000_000, "chat": chat, "from": who, "text": _HELLO}
        yield {"update_id": number, "message": message}


async def _post(session: aiohttp.ClientSession, url: str, update: dict[str, object]) -> float:
    headers = {"X-Telegram-Bot-Api-Secret-Token": _SECRET}
    for _ in range(50):
        begin = time.perf_counter()
        try:
            async with session.post(url, json=update, headers=headers) as answer:
                answer.raise_for_status()
        except aiohttp.ClientConnectionError:
            # It listens in a moment.
            await asyncio.sleep(0.02)
            continue
        return time.perf_counter() - begin
    raise RuntimeError("nobody listens to the webhook")


@asynccontextmanager
async def _webhook(server: Telegram) -> AsyncGenerator[str]:
    """Take updates in with the library alone, behind the server that the adapter uses too."""
    bot, port = Bot(server.token, server.base_url), free_port()

    async def take(request: web.Request) -> web.Response:
        Update.de_json(await request.json(), bot)
        return web.Response()

    app = web.Application()
    app.router.add_post("/", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        await runner.cleanup()


# --- Slack, over sockets


@asynccontextmanager
async def _enveloped(folder: Path, store: str) -> AsyncGenerator[tuple[Ask, Ask]]:
    async with slack() as server, slack() as other:
        accounts = [f"slack:{server.team.id}:{server.user(f'p{number}').id}" for number in range(_PEOPLE)]
        environment = {"SLACK_TOKEN": server.bot.value, "SLACK_APP_TOKEN": server.app_token}
        channels: dict[str, object] = {"slack": {"base_url": server.api}}
        async with _listening(folder, store, channels, environment, accounts), bolt(other, _heard):
            await server.sockets.connected(1)
            await other.sockets.connected(1)
            yield _envelopes(server), _envelopes(other)


def _envelopes(server: Slack) -> Ask:
    """Time an event from its sending until it is acknowledged."""
    people = [server.user(f"p{number}") for number in range(_PEOPLE)]
    turns = itertools.cycle(people)

    async def ask() -> float:
        person = next(turns)
        channel = person.dm()
        body = {"type": "message", "channel_type": "im", "channel": channel.id, "user": person.id, "text": _HELLO}
        body |= {"ts": server.state.ts(), "team": server.team.id}
        body["event_ts"] = body["ts"]
        event = Event(body, server.team.id, channel)
        payload = server.reach._wrapped(event, body, server.bot)
        begin = time.perf_counter()
        attempt = await server.reach.ask("events_api", payload)
        taken = time.perf_counter() - begin
        if attempt.failed:
            raise RuntimeError(f"an event was not acknowledged: {attempt.failed}")
        return taken

    return ask


async def _heard() -> None:
    """Acknowledge alone."""
