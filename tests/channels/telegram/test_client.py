"""Calls to the Bot API: what a broken call may have done, and what is told of it."""

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
from aiohttp import BodyPartReader, web
from telegram import Bot, InputFile
from telegram.error import NetworkError, TelegramError, TimedOut

from channels.port import AmbiguousSendError, ChannelError
from channels.telegram.client import BotApiRequests, UnsentError
from channels.telegram.errors import failure
from tests.channels.proxies import passing_on

pytestmark = pytest.mark.anyio

TOKEN = "1:secret"  # noqa: S105 - it opens nothing
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncGenerator[str]:
    """Answer every call so; yields the address."""
    app = web.Application()
    app.router.add_post("/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@asynccontextmanager
async def bot(server: str, *, call: float = 20.0) -> AsyncGenerator[Bot]:
    """Yield the library's bot for a server; a part of an answer takes `call` seconds at most."""
    requests = BotApiRequests(2, call)
    yield Bot(TOKEN, f"{server}/bot", f"{server}/file", requests, BotApiRequests(1, call))
    await requests.shutdown()


async def fails(one: Bot) -> TelegramError:
    with pytest.raises(TelegramError) as raised:
        await one.send_message(1, "hello")
    assert "secret" not in repr(raised.value)
    assert raised.value.__cause__ is None
    return raised.value


async def test_calls_go_by_the_proxy_of_the_environment_and_no_password_of_netrc_goes_along(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def answers(request: web.Request) -> web.StreamResponse:
        assert "Authorization" not in request.headers
        return web.json_response({"ok": True, "result": True})

    passwords = tmp_path / "netrc"
    passwords.write_text("default login somebody password secret", "utf-8")
    monkeypatch.setenv("NETRC", str(passwords))
    async with serving(answers) as server, passing_on(urlsplit(server).port or 0) as (proxy, passed):
        monkeypatch.setenv("HTTP_PROXY", proxy.replace("//", "//ann:word@"))
        async with bot(server) as one:
            await one.delete_message(1, 2)
        assert passed.count(b"POST http://") == 1
        assert passed.count(b"Proxy-Authorization: Basic ") == 1
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        async with bot(server) as one:
            await one.delete_message(1, 2)
        assert passed.count(b"POST http://") == 1


async def test_nothing_was_sent_where_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with bot(f"http://127.0.0.1:{taken.getsockname()[1]}") as one:
            error = await fails(one)
    assert isinstance(error, UnsentError)
    assert not isinstance(failure(error), AmbiguousSendError)


@pytest.mark.parametrize("server", ["http://nowhere.invalid", "http://"])
async def test_nothing_was_sent_to_an_address_that_is_none(server: str) -> None:
    async with bot(server) as one:
        error = await fails(one)
    assert isinstance(error, UnsentError)
    assert isinstance(failure(error), ChannelError)


async def test_a_connection_that_breaks_off_may_have_said_it() -> None:
    async def breaks(request: web.Request) -> web.StreamResponse:
        await request.read()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serving(breaks) as server, bot(server) as one:
        error = await fails(one)
    assert isinstance(error, NetworkError)
    assert isinstance(failure(error), AmbiguousSendError)


async def test_a_call_that_gets_no_answer_may_have_said_it() -> None:
    async def waits(_request: web.Request) -> web.StreamResponse:
        await anyio.sleep_forever()
        return web.Response()

    async with serving(waits) as server, bot(server, call=0.2) as one:
        error = await fails(one)
    assert isinstance(error, TimedOut)
    assert isinstance(failure(error), AmbiguousSendError)


async def test_an_answer_that_drips_is_not_waited_for_without_end() -> None:
    async def drips(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        while True:
            await answer.write(b" ")
            await anyio.sleep(0.05)

    async with serving(drips) as server, bot(server, call=0.2) as one:
        assert isinstance(await fails(one), TimedOut)


async def test_files_keep_their_names_and_what_is_in_them() -> None:
    got: list[tuple[str | None, str | None, bytes]] = []

    async def keeps(request: web.Request) -> web.StreamResponse:
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            got.append((part.name, part.filename, bytes(await part.read())))
        return web.json_response({"ok": False, "error_code": 400, "description": "Bad Request: enough"}, status=400)

    async with serving(keeps) as server, bot(server) as one:
        with pytest.raises(TelegramError):
            await one.send_document(1, InputFile(b"\x00\xff", 'Größe "a" №1.txt'), caption="ä & b=1")
    assert {name: (file, data) for name, file, data in got} == {
        "chat_id": (None, b"1"),
        "caption": (None, "ä & b=1".encode()),
        "document": ('Größe "a" №1.txt', b"\x00\xff"),
    }


async def test_a_name_that_cannot_be_sent_is_not_sent() -> None:
    async with bot("http://127.0.0.1:1") as one:
        with pytest.raises(UnsentError):
            await one.send_document(1, InputFile(b"x", "a\r\nb: c.txt"))
