"""docs/client.md as its reader does it, and the story of docs/api.md with the client: real processes, one is killed."""

import asyncio
import json
import os
import socket
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx2
import pytest
from standardwebhooks.webhooks import Webhook

from lockgate.client import Client
from lockgate.errors import ApiError, ForgedWebhookError, StreamEndedError
from lockgate.events import EventStream
from lockgate.shapes import SessionEvent, WebhookMessage
from lockgate.webhooks import received
from tests.bot.api.kit import api_config
from tests.bot.kit import bang, eventually
from tests.clocks import LEASE_SECONDS
from tests.conventions.documents import blocks
from tests.journeys.guide import BIN, Reader, free_port, lines_match, reader
from tests.journeys.machine import Machine
from tests.journeys.test_api import SECONDS
from tests.journeys.test_deploy import ran, worker
from tests.servers import SERVERS

pytestmark = pytest.mark.anyio

PAGE: Final = "docs/client.md"
ASK: Final = '!ask_user {"question": "Open at eight?", "schema": {"type": "boolean"}}'


@asynccontextmanager
async def seated(folder: Path) -> AsyncGenerator[Reader]:
    """Sit down at a machine whose API listens at a free port, once a process serves it, with a token that may all."""
    port = free_port()
    config = api_config(blocks={"store": {"lease_seconds": LEASE_SECONDS}}, settings={"port": port})
    (folder / "config.yaml").write_text(config, "utf-8")
    async with reader(Machine(folder), port, await SERVERS.place(folder / "data")) as following:
        await following.types("export TOKEN=$(lockgate token create crane --scope admin --clearance top --expires 1h)")
        yield following


async def test_the_programs_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    task, follow, *_ = (block.text for block in blocks(PAGE, "python"))
    (typed,), (printed,) = blocks(PAGE, "sh"), blocks(PAGE, "text")
    (tmp_path / "task.py").write_text(task, "utf-8")
    (tmp_path / "follow.py").write_text(follow, "utf-8")
    async with seated(tmp_path) as following:
        for role in ("api", "worker"):
            await following.starts(role)
        await following.listening()
        assert lines_match(printed.text, await following.types(typed.text))
        async with Client(following.url, following.known["TOKEN"]) as client:
            (session,) = (await client.sessions.list()).sessions
        told = await following.types(f"export API={following.url}\npython follow.py {session.id}")
    assert told.splitlines() == [
        "2 turn.started ",
        "3 user.message Is the quay office open today?",
        "4 agent.message You said: Is the quay office open today?",
        "5 turn.completed ",
    ]


async def test_the_story_with_the_client(tmp_path: Path) -> None:
    async with (
        seated(tmp_path) as following,
        worker(tmp_path, "api", "api"),
        Client(following.url, following.known["TOKEN"]) as client,
    ):
        sessions = client.sessions
        await following.listening()
        async with worker(tmp_path, "first") as first:
            begun = await sessions.create(bang("look", what="quay", seconds=SECONDS), key="morning-round")
            assert begun.created
            again = await sessions.create(bang("look", what="quay", seconds=SECONDS), key="morning-round")
            assert (again.id, again.created) == (begun.id, False)
            with pytest.raises(ApiError) as conflict:
                await sessions.create("something else", key="morning-round")
            assert (conflict.value.status, conflict.value.code) == (409, "conflict")
            heard = asyncio.create_task(all_of(sessions.events(begun.id)))

            async def runs() -> bool:
                return bool(ran(tmp_path))

            await eventually(runs)
            first.kill()
            await first.wait()
        async with worker(tmp_path, "second"):
            done = await sessions.finished(begun.id, within=60)
            assert done.result is not None
            assert done.result.body["text"] == "look: did quay"
            await sessions.say(begun.id, ASK, mode="steer")
            assert (await sessions.finished(begun.id, within=60)).status == "awaiting_input"
            (question,) = (await sessions.questions(begun.id)).questions
            assert (await sessions.answer(begun.id, question.id, value=True)).state == "replied"
            done = await sessions.finished(begun.id, within=60)
            assert done.result is not None
            assert "answered" in str(done.result.body["text"])
        assert [turn.state for turn in (await sessions.turns(begun.id)).turns] == ["ok", "ok"]
        await sessions.cancel(begun.id)
        await sessions.archive(begun.id)
        page = await sessions.page(begun.id, limit=500)
        brought = await sessions.bring(await sessions.export(begun.id, whole=True))
        assert (await sessions.get(brought.id)).status == "archived"
        await sessions.delete(begun.id)
        events, reason = await asyncio.wait_for(heard, 60)
        assert reason == "unavailable"
        assert events[: len(page.events)] == list(page.events)
        with pytest.raises(ApiError) as absent:
            await sessions.get(begun.id)
        assert (absent.value.status, absent.value.code) == (404, "not_found")


async def all_of(events: EventStream) -> tuple[list[SessionEvent], str]:
    """Return all that a stream tells, and why it ended."""
    heard = list[SessionEvent]()
    try:
        async for event in events:
            heard.append(event)
    except StreamEndedError as error:
        return heard, error.reason
    raise AssertionError


async def first(count: int, events: EventStream) -> list[SessionEvent]:
    """Return the first events of a stream."""
    async with events:
        return [await anext(events) for _ in range(count)]


async def test_a_stream_goes_on_over_a_restart_of_the_api(tmp_path: Path) -> None:
    async with seated(tmp_path) as following, Client(following.url, following.known["TOKEN"]) as client:
        sessions = client.sessions
        await following.starts("worker")
        before = await following.starts("api")
        begun = await sessions.create("one")
        heard = asyncio.create_task(first(6, sessions.events(begun.id, level="user")))
        await sessions.finished(begun.id, within=60)
        before.terminate()
        assert await asyncio.to_thread(before.wait, 60) == 0
        killed = await following.starts("api")
        await sessions.say(begun.id, "two")
        await sessions.finished(begun.id, within=60)
        killed.kill()
        await asyncio.to_thread(killed.wait, 60)
        await following.starts("api")
        await sessions.say(begun.id, "three")
        events = await asyncio.wait_for(heard, 60)
    said = [event.body["text"] for event in events]
    assert said == ["one", "You said: one", "two", "You said: two", "three", "You said: three"]


def test_a_webhook_is_received_as_the_page_says() -> None:
    *_, receive = (block.text for block in blocks(PAGE, "python"))
    secret = "whsec_" + "c2VjcmV0" * 4
    event = {"id": "s-3", "seq": 3, "ts": 1, "actor": "agent", "type": "agent.message", "level": "user"}
    data = {"session": "s", "event": {**event, "label": "PUBLIC", "body": {"text": "hello"}}}
    body = json.dumps({"type": "agent.message", "timestamp": "2026-11-25T00:00:00Z", "data": data})
    now = datetime.now(UTC)
    signature = Webhook(secret).sign("msg_1", now, body)
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    known: dict[str, object] = {"body": body.encode(), "headers": headers, "secret": secret}
    exec(receive, known)  # noqa: S102 - an example of our own page
    told = known["message"]
    assert isinstance(told, WebhookMessage)
    assert told.data.event is not None
    assert told.data.event.body == {"text": "hello"}
    for changed in ({**headers, "webhook-timestamp": "1"}, {**headers, "webhook-signature": "v1,AAAA"}, {}):
        with pytest.raises(ForgedWebhookError):
            received(body.encode(), changed, secret)
    with pytest.raises(ForgedWebhookError):
        received(body.encode() + b" ", headers, secret)


async def test_the_receiver_of_the_page_takes_what_is_signed_alone(tmp_path: Path) -> None:
    *_, program, _ = (block.text for block in blocks(PAGE, "python"))
    port, secret = free_port(), "whsec_" + "c2VjcmV0" * 4
    (tmp_path / "receive.py").write_text(program.replace("9000", str(port)), "utf-8")
    body = json.dumps({"type": "session.unavailable", "timestamp": "2026-11-25T00:00:00Z", "data": {"session": "s"}})
    now = datetime.now(UTC)
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(now.timestamp()))}
    signed = {**headers, "webhook-signature": Webhook(secret).sign("msg_1", now, body)}
    environment = {**os.environ, "SECRET": secret}
    process = await asyncio.create_subprocess_exec(
        BIN / "python", "receive.py", cwd=tmp_path, env=environment, stdout=PIPE, stderr=DEVNULL
    )

    async def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        await eventually(listens)
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as sender:
            forged = await sender.post("/", content=body, headers={**headers, "webhook-signature": "v1,AAAA"})
            taken = await sender.post("/", content=body, headers=signed)
    finally:
        process.kill()
        told, _ = await process.communicate()
    assert (forged.status_code, taken.status_code, told) == (400, 204, b"session.unavailable s\n")


async def test_the_client_needs_nothing_of_the_application(tmp_path: Path) -> None:
    """A program that uses the client alone imports none of the application."""
    code = "import sys, lockgate.client, lockgate.webhooks; print([n for n in sys.modules if n in ('bot', 'policy')])"
    process = await asyncio.create_subprocess_exec(BIN / "python", "-c", code, cwd=tmp_path, stdout=PIPE)
    assert (await process.communicate())[0] == b"[]\n"
