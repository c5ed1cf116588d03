"""Files that people send on Telegram are fetched within bounds, and from Telegram's server alone."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from channels.messages import Attachment
from channels.port import ChannelError, FileSource, LargeFileError
from channels.telegram.updates import attached
from tests.channels.files_contract import FilesContract, FileStage
from tests.channels.telegram.kit import TelegramStage, staged
from tests.sim.telegram import Telegram as Server
from tests.sim.telegram import telegram

pytestmark = pytest.mark.anyio

MOST = 20_000_000


class Filed(TelegramStage, FileStage):
    """A stage on which Alice sends files."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.source = self.adapter

    def sent(self, content: bytes) -> Attachment:
        shown = self.alice.says(None, document=("a.bin", content))
        (file,) = attached(shown.json)
        return file

    @asynccontextmanager
    async def restarted(self) -> AsyncGenerator[FileSource]:
        adapter = self.another()
        yield adapter
        await adapter.close()


class TestTelegramFiles(FilesContract):
    @pytest.fixture
    async def filed(self) -> AsyncGenerator[FileStage]:
        async with telegram() as server:
            made = Filed(server)
            yield made
            await made.adapter.close()


async def test_a_file_is_fetched_by_its_handle(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with staged() as played:
        handle = played.server.state.store("a.txt", b"content")
        assert await played.adapter.fetch(Attachment(handle, "a.txt"), 7) == b"content"
    assert played.server.token not in caplog.text


async def test_no_more_than_asked_for_is_read() -> None:
    async with staged() as played:
        handle = played.server.state.store("a.txt", b"content")
        with pytest.raises(LargeFileError):
            await played.adapter.fetch(Attachment(handle, "a.txt", size=1), 6)


async def test_what_telegram_does_not_hand_out_is_too_large() -> None:
    async with staged() as played:
        handle = played.server.state.store("a.bin", bytes(MOST + 1))
        with pytest.raises(LargeFileError, match="20000000 bytes"):
            await played.adapter.fetch(Attachment(handle, "a.bin"), 100_000_000)


async def test_a_file_that_is_gone_is_a_channel_error() -> None:
    async with staged() as played:
        with pytest.raises(ChannelError, match="does not have the file"):
            await played.adapter.fetch(Attachment("nothing", "a.txt"), 100)


async def test_a_server_that_does_not_answer_is_a_channel_error() -> None:
    async with staged() as played:
        handle = played.server.state.store("a.txt", b"content")
        played.server.fails("getFile")
        with pytest.raises(ChannelError, match="cannot be asked"):
            await played.adapter.fetch(Attachment(handle, "a.txt"), 100)


async def test_a_path_on_the_disk_of_a_server_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    await asyncio.to_thread(secret.write_bytes, b"of this machine")
    async with staged() as played:
        handle = played.server.state.store("a.txt", b"content")
        for place, told in (
            (str(secret), "on its disk, where they cannot be fetched"),
            (f"file://{secret}", "did not hand out"),
            ("https://files.example/a.txt", "did not hand out"),
        ):
            played.server.state.kept_at = place
            with pytest.raises(ChannelError, match=told):
                await played.adapter.fetch(Attachment(handle, "a.txt"), 100)
