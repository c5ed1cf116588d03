"""Messages in and answers out over a played platform, against an echo made with the platform's library alone.

Everybody writes one message at once, and the clock stops when everybody has his answer. There are fewer people than a
platform takes messages in one go, and between two rounds it gets its breath back, so that nothing waits to be paced.
Lockgate decides, keeps and audits each message and each answer; the model is the offline one. Both bots, both played
platforms and everybody on them are in one process. What is loaded is left out of garbage collections, as `lockgate run`
does, and so for both.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, cast

import anyio
from telegram import Update
from telegram.ext import Application, ApplicationBuilder, MessageHandler, filters

from bot.app.opening import open_app
from bot.cli.run import spare_collections
from tests.bench.measure import Row, by_turns_async, ratio_at_least, warm
from tests.bench.rig import bolt, crowd_config, during
from tests.sim.slack import slack
from tests.sim.slack_people import Person as OnSlack
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_world import Person as OnTelegram

_PEOPLE: Final = 25
_ROUNDS: Final = 4
_LONGEST: Final = 40.0
"""Seconds: a round is slow, as the platforms get their breath back."""
_BREATH: Final = 1.2
"""Seconds after which a platform takes as many messages in one go again."""

Ask = Callable[[], Awaitable[float]]
"""Return the messages per second of one round."""


def rows() -> Iterator[Row]:
    for name, measured, least in (("flow_telegram", _telegram, 0.35), ("flow_slack", _slack, 0.15)):
        with TemporaryDirectory(prefix="lgb") as folder:
            ours, bare = anyio.run(_measured, measured, Path(folder))
        yield Row(name, ours, "messages/s", bare, ratio_at_least(least))


async def _measured(flow: Any, folder: Path) -> list[float]:  # noqa: ANN401 - one of the two below
    async with flow(folder) as (ours, bare):
        await warm(ours, bare, rounds=1)
        spare_collections()
        return await by_turns_async(ours, bare, rounds=_ROUNDS, longest=_LONGEST)


@asynccontextmanager
async def _serving(
    folder: Path, channels: dict[str, object], environment: dict[str, str], accounts: list[str]
) -> AsyncGenerator[None]:
    """Run the whole application for people of these accounts."""
    config = crowd_config(folder, channels, accounts, limits={"person_messages_per_minute": 100_000})
    async with open_app(config, [], environment, listening=True) as app, during(app.serve(), app.listen()):
        yield


async def _round(write: Callable[[int], Awaitable[None]], answered: Callable[[], bool]) -> float:
    """Let everybody write, and wait until everybody is answered."""
    await asyncio.sleep(_BREATH)
    begin = time.perf_counter()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for number in range(_PEOPLE):
            tasks.create_task(cast("Any", write(number)))
        while not answered():  # noqa: ASYNC110 - two different servers, of which one tells
            await asyncio.sleep(0.001)
    return _PEOPLE / (time.perf_counter() - begin)


# --- Telegram


@asynccontextmanager
async def _telegram(folder: Path) -> AsyncGenerator[tuple[Ask, Ask]]:
    async with telegram() as server, telegram() as other:
        ours, theirs = ([one.user("P") for _ in range(_PEOPLE)] for one in (server, other))
        channels: dict[str, object] = {"telegram": {"base_url": f"http://127.0.0.1:{server.port}"}}
        accounts = [f"telegram:{person.id}" for person in ours]
        async with _serving(folder, channels, {"TELEGRAM_TOKEN": server.token}, accounts), _echo_telegram(other):
            yield _on_telegram(ours), _on_telegram(theirs)


def _on_telegram(people: list[OnTelegram]) -> Ask:
    async def write(number: int) -> None:
        people[number].says(None, "hello")

    async def ask() -> float:
        wanted = [len(person.private.said) + 1 for person in people]
        return await _round(
            write, lambda: all(len(one.private.said) >= count for one, count in zip(people, wanted, strict=True))
        )

    return ask


@asynccontextmanager
async def _echo_telegram(server: Telegram) -> AsyncGenerator[None]:
    async def echo(update: Update, _context: object) -> None:
        if update.message is not None:
            await update.message.reply_text(f"You said: {update.message.text}")

    builder = ApplicationBuilder().token(server.token).base_url(f"http://127.0.0.1:{server.port}/bot")
    app = cast("Application[Any, Any, Any, Any, Any, Any]", builder.concurrent_updates(_PEOPLE).build())
    app.add_handler(MessageHandler(filters.TEXT, echo))
    async with app:
        await app.start()
        if app.updater is not None:
            await app.updater.start_polling()
        try:
            yield
        finally:
            if app.updater is not None:
                await app.updater.stop()
            await app.stop()


# --- Slack


@asynccontextmanager
async def _slack(folder: Path) -> AsyncGenerator[tuple[Ask, Ask]]:
    async with slack() as server, slack() as other:
        ours, theirs = ([one.user(f"p{number}") for number in range(_PEOPLE)] for one in (server, other))
        accounts = [f"slack:{server.team.id}:{person.id}" for person in ours]
        environment = {"SLACK_TOKEN": server.bot.value, "SLACK_APP_TOKEN": server.app_token}
        async with (
            _serving(folder, {"slack": {"base_url": server.api}}, environment, accounts),
            bolt(other, _echo_slack),
        ):
            await server.sockets.connected(1)
            await other.sockets.connected(1)
            yield _on_slack(ours), _on_slack(theirs)


def _on_slack(people: list[OnSlack]) -> Ask:
    def heard(person: OnSlack) -> int:
        return sum(message.user != person.id for message in person.messages(person.dm()))

    async def write(number: int) -> None:
        await people[number].says(people[number].dm(), "hello")

    async def ask() -> float:
        wanted = [heard(person) + 1 for person in people]
        return await _round(write, lambda: all(map(lambda one, count: heard(one) >= count, people, wanted)))

    return ask


async def _echo_slack(event: dict[str, Any], say: Any) -> None:  # noqa: ANN401 - the library's own
    await say(f"You said: {event['text']}")
