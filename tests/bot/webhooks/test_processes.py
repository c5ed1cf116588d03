"""Webhooks over several processes: one that is killed leaves what it sent to another, which repeats it under its id."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.operations.reading import SessionReader
from bot.operations.tokens import TokenRequest
from bot.sessions.api_tokens import Scope
from bot.sessions.log.events import Visibility
from bot.store.records.form import stored_map
from bot.store.records.kinds import SENDING_RIGHT
from bot.store.records.names import NAMES
from bot.store.schema import WEBHOOK_RIGHTS
from bot.webhooks.keeper import WebhookKeeper, WebhookRequest
from bot.webhooks.secrets import WebhookSecrets
from policy.labels import parse
from tests.bot.api.kit import MAKER
from tests.bot.webhooks.kit import CLEARANCE, begin, hook_config
from tests.harness import Person, running
from tests.journeys.machine import Machine, Process
from tests.servers import SERVERS
from tests.sim.receiver import HANG, Receiver, receiver
from tests.store.world import alter, command

pytestmark = pytest.mark.anyio


async def webhook_of(person: Person, here: Receiver) -> str:
    """Make a program with a webhook, in a process that answers no programs and sends nothing; return its id."""
    app = person.app
    token = await app.token_keeper.create(TokenRequest("ci", Scope.STEER, parse(CLEARANCE), 0), MAKER)
    caller = app.tokens.authenticate(token.text)
    assert caller is not None
    private = app.config.webhooks.private
    reading = SessionReader(app.store, app.clock, app.gate.masks.masked)
    keeper = WebhookKeeper(app.store, reading, WebhookSecrets(app.vault, app.clock), app.ids, most=5, private=private)
    return (await keeper.make(caller, WebhookRequest(here.url, Visibility.USER))).webhook.id


@asynccontextmanager
async def answering(folder: Path) -> AsyncGenerator[Process]:
    """Run a process that answers programs, as operators start it, and kill it in the end."""
    place = await SERVERS.place(folder / "data")
    process = await asyncio.to_thread(Machine(folder).start, "run", "--role", "api", **place)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.communicate)


async def test_what_a_killed_process_sent_is_sent_again_under_its_id(tmp_path: Path) -> None:
    async with receiver() as here, running(tmp_path, hook_config(here, seconds=30), serve=False) as person:
        await person.app.reloader.open()
        hook = await webhook_of(person, here)
        session = await begin(person.app)
        here.answers.append(HANG)
        async with answering(tmp_path) as first:
            await here.have(1, 60)
            first.kill()
            await asyncio.to_thread(first.wait)
        # It was sent, and whether it was taken is not noted. The right of who was killed is over in a few seconds.
        said = await session.say("one", "two")
        await alter(person.app.store, SENDING_RIGHT, WEBHOOK_RIGHTS, hook, lapses=1)
        async with answering(tmp_path):
            await here.have(4, 60)
            assert here.ids[0] == here.ids[1]
            assert here.got[0].body == here.got[1].body
            assert here.seqs() == [said[0] - 1, said[0] - 1, *said]


async def holder(person: Person, hook: str) -> object:
    """Return which process sends for a webhook."""
    return stored_map(await command(person.app.store, "HGET", WEBHOOK_RIGHTS, hook))[NAMES["owner"]]


async def test_two_processes_send_each_event_once_and_in_order(tmp_path: Path) -> None:
    async with receiver() as here, running(tmp_path, hook_config(here), serve=False) as person:
        await person.app.reloader.open()
        hook = await webhook_of(person, here)
        sessions = [await begin(person.app) for _ in range(3)]
        async with answering(tmp_path), answering(tmp_path):
            await here.have(3, 60)
            before = await holder(person, hook)
            for number in range(10):
                for one in sessions:
                    await one.say(f"number {number}")
            await here.have(33, 60)
            await asyncio.sleep(1)
            moved = await holder(person, hook) != before
        assert len(set(here.ids)) == 33
        # A process that stalls for as long as its right lasts may repeat what it sent, under its id.
        assert moved or len(here.got) == 33
        for one in sessions:
            came = list(dict.fromkeys(here.seqs(one.sid)))
            assert (came, len(came)) == (sorted(came), 11)
