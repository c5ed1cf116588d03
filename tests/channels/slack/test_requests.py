"""Requests of Slack's are taken in when they prove to be Slack's, and answered with 200 when they are kept."""

import asyncio
import json
from collections.abc import AsyncGenerator

import aiohttp
import anyio
import pytest

from channels.message import Button, Inbound, Outbound
from channels.slack.requests import LONGEST, PATH, Listening
from tests.channels.contract import until
from tests.channels.slack.kit import SlackStage, staged
from tests.sim.ports import free_port
from tests.sim.slack_events import signed

pytestmark = pytest.mark.anyio


@pytest.fixture
async def played() -> AsyncGenerator[SlackStage]:
    port = free_port()
    async with staged(listen=Listening("127.0.0.1", port, "signing-secret")) as made:
        # A refusal is told at once here, and needs no waiting for.
        made.server.reach.within = 3
        made.server.reach.url = f"http://127.0.0.1:{port}{PATH}"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.adapter.serve, made.receive)
            await opened(port)
            yield made
            tasks.cancel_scope.cancel()


async def opened(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await anyio.sleep(0.01)
        else:
            writer.close()
            return


async def posted(played: SlackStage, raw: bytes, headers: dict[str, str]) -> int:
    async with aiohttp.ClientSession() as session:
        kind = {"Content-Type": "application/json"}
        async with session.post(played.server.reach.url, data=raw, headers=kind | headers) as response:
            return response.status


def event(played: SlackStage, text: str = "hello") -> bytes:
    message = {"type": "message", "channel": played.home.chat, "channel_type": "im", "ts": "1.1", "text": text}
    body = {"user": played.alice.id, "team": played.server.team.id}
    team = {"team_id": played.server.team.id, "event_id": "Ev1", "type": "event_callback"}
    return json.dumps(team | {"event": message | body}).encode()


async def test_what_people_do_is_kept_and_acknowledged(played: SlackStage) -> None:
    played.server.reach.extra = 3
    general = played.server.channel("general", played.alice)
    await played.alice.mentions(general, "hello &amp; &lt;good&gt; day")
    await played.alice.runs("/lockgate status", general)
    assert not any(one.failed for one in played.server.reach.attempts)
    assert [told.text for told in played.got if isinstance(told, Inbound)] == ["hello & <good> day", "/status"]


async def test_a_press_is_kept_and_acknowledged(played: SlackStage) -> None:
    await played.adapter.send(Outbound(played.home, "sure?", "k", buttons=(Button("Yes", "/approve 7"),)))
    message = played.alice.dm().messages[-1]
    (button,) = (each for block in message.blocks for each in block["elements"] if each["type"] == "button")
    attempt = await played.alice.presses(message, button["action_id"])
    assert attempt.failed == ""
    assert [told.text for told in played.got if isinstance(told, Inbound)] == ["/approve 7"]


async def test_what_cannot_be_kept_is_told_again(played: SlackStage) -> None:
    played.refusals, played.vault.full = 2, True
    await played.alice.says(played.alice.dm(), "hello")
    assert [one.failed for one in played.server.reach.attempts] == ["http_error", "http_error", ""]
    assert len(played.got) == 1


async def test_the_address_is_confirmed(played: SlackStage) -> None:
    assert await played.server.reach.verify()


async def test_what_is_not_signed_or_too_old_is_not_read(played: SlackStage) -> None:
    raw, state = event(played), played.server.state
    good = signed(state, raw)
    stamp, signature = good["X-Slack-Request-Timestamp"], good["X-Slack-Signature"]
    wrong = [
        {},
        good | {"X-Slack-Signature": ""},
        good | {"X-Slack-Signature": "v0=" + "0" * 64},
        good | {"X-Slack-Signature": signature[:-1]},
        good | {"X-Slack-Request-Timestamp": str(int(stamp) + 1)},
        good | {"X-Slack-Request-Timestamp": "soon"},
        good | {"X-Slack-Request-Timestamp": "²"},
        signed(state, raw + b" "),
        signed(state, raw, at=state.now() - 302),
        signed(state, raw, at=state.now() + 302),
    ]
    assert {await posted(played, raw, headers) for headers in wrong} == {401}
    assert played.got == []
    assert await posted(played, raw, signed(state, raw, at=state.now() - 290)) == 200
    assert len(played.got) == 1


async def test_what_is_no_request_of_slacks_is_refused(played: SlackStage) -> None:
    state = played.server.state
    for raw in (b"{", b"[" * 100_000, b"[1]", b'{"event": 1}', b'{"event": {"channel": [1]}}'):
        assert await posted(played, raw, signed(state, raw)) == 400
    assert await posted(played, b"\xff", signed(state, b"\xff")) == 400
    raw = b"x" * (LONGEST + 1)
    assert await posted(played, raw, signed(state, raw)) == 413
    assert await posted(played, event(played), signed(state, event(played))) == 200
    await until(lambda: played.got)


def test_an_empty_secret_is_none() -> None:
    with pytest.raises(ValueError, match="signing secret"):
        Listening("127.0.0.1", 1, " ")
    assert "s3cret" not in repr(Listening("127.0.0.1", 1, "s3cret"))


async def test_listening_is_told_when_requests_can_come_and_not_where_the_port_is_taken() -> None:
    port, began = free_port(), list[str]()
    listen = Listening("127.0.0.1", port, "signing-secret")
    async with staged(listen=listen) as played, anyio.create_task_group() as tasks:
        tasks.start_soon(played.adapter.serve, played.receive, lambda: began.append("first"))
        await opened(port)
        unable = played.another(listen=listen)
        with pytest.raises(OSError, match=str(port)):
            await unable.serve(played.receive, lambda: began.append("second"))
        await unable.close()
        tasks.cancel_scope.cancel()
    assert began == ["first"]
