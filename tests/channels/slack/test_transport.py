"""Sockets to Slack stay open: those that go are replaced, and those that only look alive are noticed."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from urllib.parse import urlsplit

import aiohttp
import anyio
import pytest

from channels.messages import Button, Inbound, Outbound
from channels.slack.transport import LONGEST_REQUEST, PATH, RequestEndpoint
from tests.channels.contract import until
from tests.channels.proxies import passing_on
from tests.channels.slack.kit import FAST, SlackStage, staged
from tests.sim.ports import free_port
from tests.sim.slack_events import signed

pytestmark = pytest.mark.anyio


async def hears(stage: SlackStage, text: str) -> None:
    """Wait until something that is said reaches the application."""
    before = len(stage.got)
    await stage.alice.says(stage.alice.dm(), text)
    await until(lambda: len(stage.got) > before)
    last = stage.got[-1]
    assert isinstance(last, Inbound)
    assert last.text == text


async def test_a_socket_that_answers_nothing_is_replaced() -> None:
    async with staged(timing=replace(FAST, ping=1)) as played, played.serving():
        await hears(played, "before")
        played.server.sockets.die()
        await until(lambda: any(not socket.dead for socket in played.server.sockets.open))
        await hears(played, "after")


async def test_a_socket_that_brings_nothing_is_replaced_though_it_answers() -> None:
    async with staged(timing=replace(FAST, quiet=3)) as played, played.serving():
        (first,) = played.server.sockets.open
        await until(lambda: first not in played.server.sockets.open and played.server.sockets.open)
        await hears(played, "after")


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
async def test_a_socket_that_is_told_to_go_is_replaced(reason: str) -> None:
    async with staged() as played, played.serving():
        (first,) = played.server.sockets.open
        await played.server.sockets.disconnect(reason)
        await until(lambda: any(socket is not first for socket in played.server.sockets.open))
        assert (first in played.server.sockets.open) is (reason == "warning")
        await hears(played, "after")


async def test_several_are_open_and_one_that_is_warned_of_its_end_has_another_beside_it() -> None:
    async with staged(timing=replace(FAST, sockets=3)) as played, played.serving(3):
        await played.server.sockets.disconnect("warning")
        await played.server.sockets.connected(6)
        for number in range(6):
            await hears(played, str(number))
        assert all(socket.sent for socket in played.server.sockets.open)


async def test_a_ticket_is_asked_for_every_time() -> None:
    async with staged() as played, played.serving():
        for _ in range(3):
            count = len(tickets(played))
            await played.server.sockets.disconnect()
            await until(lambda count=count: len(tickets(played)) > count and played.server.sockets.open)
        await hears(played, "after")


async def test_sockets_go_by_the_proxy_that_calls_go_by(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged() as played, passing_on(urlsplit(played.server.api).port or 0) as (proxy, passed):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.delenv("HTTPS_PROXY", raising=False)
        async with played.serving():
            await hears(played, "by the proxy")
        assert b"POST http://" in passed
        assert b"Upgrade: websocket" in passed


def tickets(played: SlackStage) -> list[str]:
    return [call.answer["url"] for call in played.server.calls if call.answer.get("url", "").startswith("ws")]


@pytest.mark.parametrize("fault", [{"status": 500}, {"status": 429}, {"cut": "before"}, {"error": "internal_error"}])
async def test_it_goes_on_when_slack_is_back(fault: dict[str, object]) -> None:
    async with staged() as played:
        met = played.server.fails("apps.connections.open", times=1_000, **{"retry_after": 0, **fault})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(played.adapter.serve, played.receive)
            await until(lambda: met.times < 998)
            assert [one.problem for one in await played.adapter.troubles()] == ["no socket is open to Slack"]
            met.times = 0
            await until(lambda: played.server.sockets.open)
            await hears(played, "hello")
            assert await played.adapter.troubles() == ()
            tasks.cancel_scope.cancel()


async def test_a_token_that_opens_nothing_is_told() -> None:
    async with staged(listen="xapp-wrong") as played:
        (found,) = await played.adapter.troubles()
        assert found.problem == "Slack does not accept the app-level token"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(played.adapter.serve, played.receive)
            await until(lambda: len([one for one in played.server.calls if not one.answer["ok"]]) > 2)
            assert found in await played.adapter.troubles()
            tasks.cancel_scope.cancel()


async def test_what_is_told_when_socket_mode_is_off() -> None:
    async with staged() as played:
        played.server.fails("apps.connections.open", error="connections_not_enabled")
        (found,) = await played.adapter.troubles()
        assert found.next_step == "turn it on at api.slack.com, under Socket Mode"


async def test_what_cannot_be_kept_is_told_as_long_as_it_cannot() -> None:
    async with staged() as played, played.serving():
        played.refusals, played.vault.full = 1_000_000, True
        played.server.reach.again = ()
        await played.alice.says(played.alice.dm(), "lost")
        (found,) = await played.adapter.troubles()
        assert found.next_step == "look at the store"
        played.refusals = 0
        await hears(played, "kept")
        with anyio.fail_after(60):
            while await played.adapter.troubles():  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.01)


async def test_what_is_no_envelope_or_holds_nothing_of_slacks_does_no_harm() -> None:
    async with staged() as played, played.serving():
        (first,) = played.server.sockets.open
        await first.stream.send_json({"envelope_id": "e1", "type": "events_api", "payload": {"event": [1]}})
        await first.stream.send_json({"envelope_id": "e2", "type": "events_api", "payload": {"event": 1}})
        await hears(played, "still here")
        (found,) = await played.adapter.troubles()
        assert found.problem == "2 events could not be understood"
        await first.stream.send_str("{")
        await until(lambda: first not in played.server.sockets.open and played.server.sockets.open)
        await hears(played, "and after")


async def test_listening_is_told_when_slack_greeted_and_once() -> None:
    async with staged(timing=replace(FAST, sockets=2)) as played:
        began: list[int] = []
        fault = played.server.fails("apps.connections.open", status=500, times=3)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(played.adapter.serve, played.receive, lambda: began.append(fault.times))
            await played.server.sockets.connected(2)
            await until(lambda: began)
            await played.server.sockets.disconnect("refresh_requested")
            await hears(played, "after")
            tasks.cancel_scope.cancel()
        assert began == [0]


@pytest.fixture
async def played() -> AsyncGenerator[SlackStage]:
    port = free_port()
    async with staged(listen=RequestEndpoint("127.0.0.1", port, "signing-secret")) as made:
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
    raw = b"x" * (LONGEST_REQUEST + 1)
    assert await posted(played, raw, signed(state, raw)) == 413
    assert await posted(played, event(played), signed(state, event(played))) == 200
    await until(lambda: played.got)


def test_an_empty_secret_is_none() -> None:
    with pytest.raises(ValueError, match="signing secret"):
        RequestEndpoint("127.0.0.1", 1, " ")
    assert "s3cret" not in repr(RequestEndpoint("127.0.0.1", 1, "s3cret"))


async def test_listening_is_told_when_requests_can_come_and_not_where_the_port_is_taken() -> None:
    port, began = free_port(), list[str]()
    listen = RequestEndpoint("127.0.0.1", port, "signing-secret")
    async with staged(listen=listen) as played, anyio.create_task_group() as tasks:
        tasks.start_soon(played.adapter.serve, played.receive, lambda: began.append("first"))
        await opened(port)
        unable = played.another(listen=listen)
        with pytest.raises(OSError, match=str(port)):
            await unable.serve(played.receive, lambda: began.append("second"))
        await unable.close()
        tasks.cancel_scope.cancel()
    assert began == ["first"]
