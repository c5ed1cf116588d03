"""What is fetched for a message is bounded, asked of one address alone, and told to nobody."""

import asyncio
import gzip
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from channels.http import download
from channels.port import ChannelError, LargeFileError

pytestmark = pytest.mark.anyio

SECRET = "t0ken"  # noqa: S105 - it opens nothing


class Files:
    """A server with files of several kinds; `asked` are the paths that were asked for."""

    def __init__(self) -> None:
        self.base = ""
        self.asked: list[str] = []
        self.sent = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        match request.path:
            case "/good":
                proven = request.headers.get("Authorization") == SECRET
                return web.Response(body=b"content" if proven else b"sign in")
            case "/moved":
                raise web.HTTPFound(f"{self.base}/good")
            case "/packed":
                return web.Response(body=gzip.compress(bytes(10_000_000)), headers={"Content-Encoding": "gzip"})
            case "/endless" | "/slow":
                return await self._endless(request, 0.0 if request.path == "/endless" else 0.05)
            case _:
                raise web.HTTPNotFound

    async def _endless(self, request: web.Request, pause: float) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(bytes(1000))
                self.sent += 1000
                await asyncio.sleep(pause)
        except OSError:
            return response


@asynccontextmanager
async def served() -> AsyncGenerator[Files]:
    files = Files()
    app = web.Application()
    app.router.add_get("/{path:.*}", files.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    files.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield files
    finally:
        await runner.cleanup()


@pytest.fixture
async def files() -> AsyncGenerator[Files]:
    async with served() as made:
        yield made


async def test_a_file_is_returned_whole(files: Files) -> None:
    assert await download(f"{files.base}/good", 7, 5, {"Authorization": SECRET}) == b"content"


async def test_no_password_of_netrc_goes_along(files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    passwords = tmp_path / "netrc"
    passwords.write_text("default login somebody password secret", "utf-8")
    monkeypatch.setenv("NETRC", str(passwords))
    assert await download(f"{files.base}/good", 7, 5, {"Authorization": SECRET}) == b"content"


async def test_one_byte_too_many_is_too_many(files: Files) -> None:
    with pytest.raises(LargeFileError):
        await download(f"{files.base}/good", 6, 5, {"Authorization": SECRET})


async def test_a_file_without_end_is_not_read_on(files: Files) -> None:
    with pytest.raises(LargeFileError):
        await download(f"{files.base}/endless", 100_000, 5)
    assert files.sent < 20_000_000


async def test_a_file_that_drips_is_given_up(files: Files) -> None:
    with pytest.raises(ChannelError, match="did not hand out"):
        await download(f"{files.base}/slow", 100_000_000, 0.2)


async def test_what_is_packed_is_not_unpacked(files: Files) -> None:
    assert len(await download(f"{files.base}/packed", 100_000, 5)) < 100_000


async def test_nothing_is_asked_of_where_a_redirect_leads(files: Files) -> None:
    with pytest.raises(ChannelError):
        await download(f"{files.base}/moved", 100, 5, {"Authorization": SECRET})
    assert files.asked == ["/moved"]


@pytest.mark.parametrize(
    "address", ["{base}/absent", "http://127.0.0.1:1/secret-path", "nothing", "file:///etc/passwd"]
)
async def test_what_cannot_be_had_is_told_without_its_address(files: Files, address: str) -> None:
    with pytest.raises(ChannelError) as refused:
        await download(address.format(base=files.base), 100, 5)
    assert str(refused.value) == "the platform did not hand out the file"
    assert "secret-path" not in "".join(traceback.format_exception_only(refused.value))
    assert refused.value.__context__ is None or refused.value.__suppress_context__
