"""A restart in the middle of a hundred messages over both platforms: killed, ended in order, and killed again.

The real command line listens to a Telegram and a Slack that are played on loopback. Every message is in the log once,
and every answer is shown once, or again with its mark, or stands as of unknown outcome.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from bot.app.app import App
from bot.app.opening import open_app
from bot.audit.chain import Intact
from bot.cli.ready import FOLDER, machine
from bot.config.load import load_config
from bot.sessions.deliveries import DeliveryState
from bot.sessions.log.event_types import UserMessage
from bot.sessions.log.events import EventType
from bot.sessions.models import Status
from bot.tools import catalogue
from channels.telegram.render import REPEATED
from tests.events import bodies
from tests.journeys.machine import Machine, Process
from tests.people import principal
from tests.sim.slack import Slack, slack
from tests.sim.slack_people import Person as OnSlack
from tests.sim.telegram import Telegram, telegram
from tests.sim.telegram_world import Person as OnTelegram

PEOPLE: Final = 17
PATIENCE: Final = 120.0


@dataclass
class Town:
    """Both platforms and everybody on them; each has a number and writes a few messages that bear it."""

    telegram: Telegram
    slack: Slack
    here: list[OnTelegram]
    there: list[OnSlack]
    written: int = 0

    async def write(self) -> None:
        """Let everybody write one more message on his platform."""
        self.written += 1
        for number, person in enumerate(self.here):
            person.says(None, f"telegram-{number}-{self.written};")
        for number, other in enumerate(self.there):
            await other.says(other.dm(), f"slack-{number}-{self.written};")

    def expected(self) -> set[str]:
        return {
            f"{platform}-{number}-{n};"
            for platform, people in (("telegram", self.here), ("slack", self.there))
            for number in range(len(people))
            for n in range(1, self.written + 1)
        }

    def shown(self) -> list[str]:
        """Return what the bot said anywhere."""
        told = [text for person in self.here for text in person.private.said]
        for other in self.there:
            told += [message.text for message in other.messages(other.dm()) if message.user != other.id]
        return told

    def answered(self) -> set[str]:
        return {name for text in self.shown() for name in named(text)}


def named(text: str) -> list[str]:
    return re.findall(r"(?:telegram|slack)-\d+-\d+;", text)


@asynccontextmanager
async def town() -> AsyncGenerator[Town]:
    async with telegram() as one, slack() as other:
        # Whatever is written is told again for as long as nobody takes it, on Slack twice in any case.
        other.reach.patient, other.reach.again, other.reach.extra = False, (0.5,) * 100, 1
        people = [one.user(f"T{number}") for number in range(PEOPLE)]
        yield Town(one, other, people, [other.user(f"S{number}") for number in range(PEOPLE)])


class Bot:
    """`lockgate run` on a town, started and ended as often as is wanted."""

    def __init__(self, folder: Path, town: Town) -> None:
        accounts = {f"t{number}": f"telegram:{person.id}" for number, person in enumerate(town.here)}
        accounts |= {f"s{number}": f"slack:{town.slack.team.id}:{one.id}" for number, one in enumerate(town.there)}
        settings = {
            "store": {"lease_seconds": 2},
            "channels": {
                "telegram": {"base_url": f"http://127.0.0.1:{town.telegram.port}"},
                "slack": {"base_url": town.slack.api},
            },
            "policy": {
                "principals": {
                    "owner": principal("console:owner"),
                    **{
                        name: principal(account, role="member", clearance="INTERNAL")
                        for name, account in accounts.items()
                    },
                },
                "channels": {
                    name: {"classification": "INTERNAL", "overshoot": "allow"}
                    for name in ("console", "telegram", "slack")
                },
                "recipients": {},
            },
        }
        (folder / "config.yaml").write_text(json.dumps(settings))
        self._machine = Machine(folder, fresh=True)
        self._tokens = {
            "TELEGRAM_TOKEN": town.telegram.token,
            "SLACK_TOKEN": town.slack.bot.value,
            "SLACK_APP_TOKEN": town.slack.app_token,
        }
        self._process: Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.to_thread(lambda: self._machine.start("run", **self._tokens))

    async def end(self, *, kindly: bool) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        if kindly:
            # Before it tells that it is there, the signal ends it as it ends every process.
            async with asyncio.timeout(PATIENCE):
                while not (self._machine.data / FOLDER / f"{process.pid}@{machine()}.json").exists():  # noqa: ASYNC110 - a file
                    await asyncio.sleep(0.05)
        process.terminate() if kindly else process.kill()
        _, err = await asyncio.to_thread(process.communicate, timeout=30)
        assert "Traceback" not in err.decode(), err.decode()
        assert process.returncode == (0 if kindly else -9)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[App]:
        place = {"LOCKGATE_DATA_DIR": str(self._machine.data)}
        config = await asyncio.to_thread(load_config, self._machine.folder / "config.yaml", place, catalogue.ARGUMENTS)
        async with open_app(config, [], {}) as app:
            yield app


async def until(town: Town, count: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while len(town.answered()) < count:  # noqa: ASYNC110 - two servers tell of it, or one of them
            await asyncio.sleep(0.05)


@pytest.mark.anyio
async def test_a_restart_in_the_middle_of_a_hundred_messages(tmp_path: Path) -> None:
    async with town() as there:
        bot = Bot(tmp_path, there)
        try:
            await bot.start()
            await there.write()
            await until(there, 5)
            await bot.end(kindly=False)
            # As after a crash between keeping what came and confirming it.
            there.telegram.repeat_updates(PEOPLE)
            await there.write()
            await bot.start()
            await until(there, PEOPLE + 5)
            await bot.end(kindly=True)
            await there.write()
            await bot.start()
            await until(there, 2 * PEOPLE + 5)
            await bot.end(kindly=False)
            await bot.start()
            async with bot.opened() as app:
                await healed(app, there)
        finally:
            await bot.end(kindly=True)
        async with bot.opened() as app:
            await check(app, there)


async def healed(app: App, town: Town) -> None:
    """Wait until all was accepted and nothing waits, runs or is still to be said."""
    async with asyncio.timeout(PATIENCE):
        while not await _quiet(app, len(town.expected())):  # noqa: ASYNC110 - the store tells nobody
            await asyncio.sleep(0.2)


async def _quiet(app: App, messages: int) -> bool:
    accepted = 0
    for sid in await sessions(app):
        state = await app.store.sessions.state(sid)
        assert state is not None
        if state.status is not Status.IDLE or state.waiting_items:
            return False
        unsaid = {DeliveryState.PENDING, DeliveryState.SENDING}
        if any(one.state in unsaid for one in await app.store.outbox.deliveries(sid)):
            return False
        accepted += len([one for one in await app.store.sessions.events(sid) if one.type is EventType.USER_MESSAGE])
    return accepted >= messages


async def sessions(app: App) -> list[str]:
    return [chain async for chain, _ in app.store.audit.heads() if chain != "audit"]


async def check(app: App, town: Town) -> None:
    logged, ambiguous = list[str](), set[str]()
    for sid in await sessions(app):
        events = await app.store.sessions.events(sid)
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert isinstance(await app.chains.verify(sid), Intact)
        said = [name for one in bodies(events, UserMessage) for name in named(one.text)]
        if said[0].startswith("telegram"):
            # Slack tells again what was not taken, in no order.
            assert said == sorted(said)
        logged += said
        for delivery in await app.store.outbox.deliveries(sid):
            if delivery.state is DeliveryState.AMBIGUOUS:
                ambiguous |= set(named(delivery.text))
    assert sorted(logged) == sorted(town.expected())
    shown = town.shown()
    plain = Counter(name for text in shown if REPEATED not in text for name in set(named(text)))
    assert {name for name, count in plain.items() if count > 1} == set()
    assert town.expected() - town.answered() <= ambiguous
